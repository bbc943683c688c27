# A column as Python takes it: values, and which of them are missing. In a vector of text reticulate would turn NA
# into the word "NA", a level like any other.
column_for_python <- function(column, name) {
  missing <- as.vector(is.na(column))
  if (is.factor(column)) {
    values <- as.character(column)
  } else if (inherits(column, c("Date", "POSIXt"))) {
    values <- as.character(column)
  } else if (inherits(column, "haven_labelled")) {
    # Codes stay codes, as in the file; tagged and user-missing values are missing.
    values <- as.vector(unclass(column))
  } else if (is.atomic(column)) {
    values <- as.vector(column)
  } else {
    stop("Column '", name, "' is a list or of another kind that holds no plain values.", call. = FALSE)
  }
  attributes(values) <- NULL
  values[missing] <- if (is.character(values)) "" else 0
  list(values = many(values), missing = many(missing))
}

# A vector of length one would arrive as a single value. Lists of plain values and not arrays: older versions of
# reticulate do not know the arrays of NumPy 2.
many <- function(values) if (length(values) == 1) list(values) else values

as_python_table <- function(data) {
  if (!is.data.frame(data)) stop("The data are a data frame, or the path of a file.", call. = FALSE)
  prepared <- Map(column_for_python, data, names(data))
  python()$table(lapply(prepared, `[[`, "values"), lapply(prepared, `[[`, "missing"))
}

# A column of the protected data in the type that the column had, with its labels.
column_from_python <- function(back, original) {
  values <- unlist(back$values)
  values[unlist(back$missing)] <- NA
  if (is.factor(original)) {
    known <- values[!is.na(values)] %in% levels(original)
    return(if (all(known)) factor(values, levels = levels(original), ordered = is.ordered(original)) else factor(values))
  }
  if (inherits(original, "Date")) {
    dates <- as.Date(values, optional = TRUE)
    # What is no date any more, such as a quarter, stays the text that it came as.
    return(if (identical(is.na(dates), is.na(values))) dates else values)
  }
  # A recoded key has labels such as "20-24" where it had numbers.
  if (is.character(values) && !is.character(unclass(original))) return(values)
  mode(values) <- mode(unclass(original))
  if (is.integer(original)) values <- as.integer(values)
  attributes(values) <- attributes(original)
  values
}

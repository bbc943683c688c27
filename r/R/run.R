run <- function(what, data, options) {
  input <- if (is.character(data) && length(data) == 1) normalizePath(data, mustWork = TRUE) else asked(as_python_table(data))
  result <- asked(python()$run(what, input, options))
  structure(list(result = result, data = data, what = what), class = "rarecell_run")
}

#' The census sample of the tutorial, whose population is known: 179 of its records are population uniques.
census_sample <- function() {
  as.data.frame(lapply(asked(python()$census_sample()), unlist))
}

#' Identification risk of every record of a data frame or file.
assess <- function(data, keys, population = NULL, weight = NULL, ...) {
  run("assess", data, list(keys = as.list(keys), population = population, weight = weight, ...))
}

#' Assess, and swap values of risky records such that every marginal of the model stays as it was.
protect <- function(data, keys, population = NULL, weight = NULL, ...) {
  run("protect", data, list(keys = as.list(keys), population = population, weight = weight, ...))
}

#' A synthetic twin: a file drawn from all files with the same tables of the model.
synthesise <- function(data, columns, keys = NULL, ...) {
  run("synthesise", data, list(columns = as.list(columns), keys = if (is.null(keys)) NULL else as.list(keys), ...))
}

#' The records of a twin, with the columns and types of the data.
twin_data <- function(x, number = 1) {
  if (x$what != "synthesise") stop("Only synthesise() draws twins.", call. = FALSE)
  if (!is.data.frame(x$data)) stop("The data are in a file; write the twin with report().", call. = FALSE)
  back <- asked(python()$twin_columns(x$result, as.integer(number)))
  out <- x$data[names(back)]
  rownames(out) <- NULL
  for (name in names(back)) out[[name]] <- column_from_python(back[[name]], x$data[[name]])
  out
}

#' The risk of every record, a row each, in the order of the data.
record_risk <- function(x) {
  as.data.frame(lapply(asked(python()$risk_columns(x$result)), as.vector))
}

#' The protected data: same rows and labels, without the columns that were dropped.
protected_data <- function(x) {
  if (x$what != "protect") stop("Only protect() changes data.", call. = FALSE)
  if (!is.data.frame(x$data)) stop("The data are in a file; write the protected file with report().", call. = FALSE)
  released <- asked(python()$released(x$result))
  out <- x$data
  for (name in setdiff(names(out), unlist(released$names))) out[[name]] <- NULL
  for (name in unlist(released$changed)) {
    out[[name]] <- column_from_python(asked(python()$column_back(x$result, name)), x$data[[name]])
  }
  out
}

#' Write the report and all files of a run into a folder.
report <- function(x, folder, overwrite = FALSE) {
  invisible(asked(python()$save(x$result, path.expand(folder), overwrite)))
}

#' Walk through a result in words.
explain <- function(x) {
  text <- asked(python()$explain(x$result))
  cat(strwrap(strsplit(text, "\n\n")[[1]], prefix = "\n", initial = ""), "\n")
  invisible(text)
}

summary.rarecell_run <- function(object, ...) asked(python()$numbers(object$result))

print.rarecell_run <- function(x, ...) {
  cat(strwrap(asked(reticulate::py_str(x$result))), sep = "\n")
  invisible(x)
}

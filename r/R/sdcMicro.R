# A slot of an sdcMicroObj. Steps that sdcMicro can undo are kept in 'prev'; a slot that the last step did not set is found there.
slot_of <- function(sdc, name) {
  if (!name %in% methods::slotNames(sdc)) return(NULL)
  has <- function(part) part %in% methods::slotNames(sdc)
  earlier <- if (has("prev")) methods::slot(sdc, "prev") else NULL
  if (has("set") && !name %in% unlist(methods::slot(sdc, "set")) && !is.null(earlier)) return(slot_of(earlier, name))
  methods::slot(sdc, name)
}

#' What an object of sdcMicro holds: the data as they were and as they are now, the roles of columns, and what was done.
from_sdcMicro <- function(sdc) {
  if (!isS4(sdc) || !"origData" %in% methods::slotNames(sdc)) {
    stop("This is not an object that sdcMicro's createSdcObj() makes.", call. = FALSE)
  }
  original <- as.data.frame(slot_of(sdc, "origData"))
  named <- function(name) {
    columns <- slot_of(sdc, name)
    if (is.null(columns)) NULL else if (is.character(columns)) columns else names(original)[columns]
  }
  released <- original
  for (part in c("manipKeyVars", "manipPramVars", "manipNumVars", "manipGhostVars", "manipStrataVar")) {
    changed <- slot_of(sdc, part)
    if (is.data.frame(changed)) for (name in names(changed)) released[[name]] <- changed[[name]]
  }
  released <- released[setdiff(names(released), slot_of(sdc, "deletedVars"))]
  keys <- named("keyVars")
  structure(
    list(
      original = original, released = released, keys = keys,
      weight = named("weightVar"), household = named("hhId"), strata = named("strataVar"), sensitive = named("sensibleVar"),
      done = what_was_done(original, released, unique(c(keys, named("pramVars"), named("numVars"))))
    ),
    class = "rarecell_from_sdcMicro"
  )
}

# Column by column: values before and after, how many records have another value, and how many were blanked.
what_was_done <- function(original, released, columns) {
  lines <- lapply(columns, function(name) {
    before <- as.character(original[[name]])
    after <- if (name %in% names(released)) as.character(released[[name]]) else rep(NA_character_, length(before))
    blanked <- is.na(after) & !is.na(before)
    data.frame(
      column = name, values_before = length(unique(before[!is.na(before)])), values_after = length(unique(after[!is.na(after)])),
      changed = sum(before != after, na.rm = TRUE), blanked = sum(blanked)
    )
  })
  if (length(lines) == 0) NULL else do.call(rbind, lines)
}

print.rarecell_from_sdcMicro <- function(x, ...) {
  cat("Keys: ", paste(x$keys, collapse = ", "), "\n", sep = "")
  for (role in c("weight", "household", "strata", "sensitive")) if (!is.null(x[[role]])) cat(role, ": ", paste(x[[role]], collapse = ", "), "\n", sep = "")
  print(x$done, row.names = FALSE)
  invisible(x)
}

#' What intruders find in a released file, made by this package or by any other.
attack <- function(released, original = NULL, keys = NULL, population = NULL, weight = NULL, ...) {
  if (isS4(released)) released <- from_sdcMicro(released)
  if (inherits(released, "rarecell_from_sdcMicro")) {
    original <- if (is.null(original)) released$original else original
    keys <- if (is.null(keys)) released$keys else keys
    weight <- if (is.null(weight) && is.null(population)) released$weight else weight
    released <- released$released
  }
  frames <- lapply(list(released = released, original = original), function(data) {
    if (is.character(data) && length(data) == 1) normalizePath(data, mustWork = TRUE) else asked(as_python_table(data))
  })
  options <- list(keys = as.list(keys), population = population, weight = weight, ...)
  found <- asked(python()$attack(frames$released, frames$original, options))
  as.data.frame(lapply(found, unlist))
}

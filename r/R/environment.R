# The Python package that this version of the R package was tested with.
python_version_of_rarecell <- "0.1.0"
environment_name <- "r-rarecell"

state <- new.env(parent = emptyenv())

#' Install the Python package into an environment of its own.
install_rarecell <- function(version = python_version_of_rarecell, envname = environment_name, extras = "stats") {
  wanted <- sprintf("rarecell[%s]==%s", paste(extras, collapse = ","), version)
  reticulate::virtualenv_create(envname, packages = wanted)
  message("Installed ", wanted, ". Restart R, then library(rarecell).")
  invisible(envname)
}

.onLoad <- function(libname, pkgname) {
  # An environment that the user has chosen is left alone.
  chosen <- nzchar(Sys.getenv("RETICULATE_PYTHON"))
  if (!chosen && reticulate::virtualenv_exists(environment_name)) {
    reticulate::use_virtualenv(environment_name, required = FALSE)
  }
}

python <- function() {
  if (is.null(state$python)) {
    if (!reticulate::py_module_available("rarecell")) {
      stop("The Python package rarecell was not found. Install it once with: rarecell::install_rarecell()", call. = FALSE)
    }
    path <- system.file("python", package = "rarecell")
    state$python <- reticulate::import_from_path("rarecell_r", path = path, convert = TRUE)
  }
  state$python
}

# One paragraph, as everywhere, instead of Python's traceback.
asked <- function(expression) {
  tryCatch(expression, error = function(problem) {
    # Python puts the name of the error before its message, with or without that of its module.
    said <- sub("^([a-z_]+[.])*[A-Z][A-Za-z]*: +", "", conditionMessage(problem))
    stop(trimws(strsplit(said, "\n")[[1]][1]), call. = FALSE)
  })
}

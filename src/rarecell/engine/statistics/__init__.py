"""Files of Stata, SPSS and SAS."""

{smcl}
{* version 0.1.0}{...}
{title:Title}

{phang}{bf:rarecell} {hline 2} Identification risk of the records in memory, and swaps that protect them

{title:Syntax}

{p 8 16 2}{cmd:rarecell assess} {varlist}{cmd:,} {opt pop:ulation(#)} [{opt w:eight(varname)} {opt gen:erate(newvar)} {opt thr:eshold(#)} {opt out(folder)} {opt rep:lace}]

{p 8 16 2}{cmd:rarecell protect} {varlist}{cmd:,} {opt pop:ulation(#)} {{opt top(#)} | {opt risk:above(#)}} [{opt w:eight(varname)} {opt thr:eshold(#)} {opt seed(#)} {opt out(folder)} {opt rep:lace}]

{title:Description}

{pstd}{varlist} are the keys: what somebody outside could know of a person. {cmd:rarecell assess} estimates for each record the
probability that it is the only one with its values in the population. {cmd:rarecell protect} does the same, and then swaps values of the
keys between records in memory such that every table the model rests on stays as it was. Save the data under a new name afterwards.

{pstd}Variables other than the keys and the weight are not looked at. One that gives a swapped key away, such as the year of birth beside
the age, undoes the protection. {cmd:rarecell protect survey.dta} in a terminal looks for such variables.

{title:Options}

{phang}{opt population(#)} is the number of units that the sample was drawn from.

{phang}{opt weight(varname)} is a variable of survey weights, instead of or beside the population.

{phang}{opt generate(newvar)} stores the risk of every record, from 0 to 1.

{phang}{opt threshold(#)} is the risk from which a record is called risky, 0.2 unless given.

{phang}{opt top(#)} protects so many of the riskiest records; {opt riskabove(#)} those with a higher risk.

{phang}{opt seed(#)} makes swaps that can be repeated. Unless it is given, they are drawn by a secret number.

{phang}{opt out(folder)} writes the report and all files of the run; {opt replace} allows them to be replaced.

{title:Installation}

{pstd}Stata 16 or newer with Python 3.11 or newer ({helpb python}). In a terminal, with the Python that Stata uses:

{phang2}{cmd:pip install rarecell}

{title:Stored scalars}

{pstd}{cmd:r_sample_uniques}, {cmd:r_population_uniques}, {cmd:r_correct_matches}

{title:Example}

{phang2}{cmd:. use survey}{p_end}
{phang2}{cmd:. rarecell assess age sex region job, population(1000000) generate(risk)}{p_end}
{phang2}{cmd:. rarecell protect age sex region job, population(1000000) riskabove(0.2) out(protected)}{p_end}
{phang2}{cmd:. save survey_protected}{p_end}

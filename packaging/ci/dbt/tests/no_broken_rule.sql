-- A dbt test returns the rows that are wrong: the rules that the table does not keep.
select rule, sentence from {{ ref('disclosure_check') }} where not passed

-- What is left of locks when nobody uses them: holders, and marks of those who waited.
-- Parameters: none.
-- Result: one text for each row that is not as it should be.
select 'row ' || name || ': owner ' || coalesce(owner, 'none') || ', wanted ' || wanted from lease
where owner is not null or wanted <> 0;

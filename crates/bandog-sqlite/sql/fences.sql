-- Reads a part of all names, with their last fences.
-- ?1 the last name of the part before; empty for the first part
-- ?2 maximum number of names
-- Result: rows of name, fence, sorted by name.
select name, fence from lease where name > ?1 order by name limit ?2;

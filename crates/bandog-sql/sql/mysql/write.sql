-- Writes locks whose rows are locked.
-- $1 names
-- $2 owners
-- $3 times at which the holds expire
-- $4 whether clients starve
-- $5 whether subscribers wait
-- $6 states
-- $7 last fences; null if the fence has not changed
-- Result: none.
insert into bandog_fence (name, fence) $known(1, 7)
on duplicate key update fence = values(fence);
insert into bandog_lease (name, owner, expires, starving, wanted, state)
values $values(1, 2, 3, 4, 5, 6)
on duplicate key update owner = values(owner), expires = values(expires), starving = values(starving),
    wanted = values(wanted), state = values(state)

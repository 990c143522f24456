-- Reads whose database this is.
-- Parameters: none.
-- Result: application_id, user_version, the number of tables and other things in it.
select application_id, user_version, (select count(*) from sqlite_schema)
from pragma_application_id, pragma_user_version;

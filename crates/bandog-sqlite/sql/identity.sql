-- Reads the id of the program that created the database, and the version of the tables.
-- Parameters: none.
-- Result: application_id, user_version, the number of entries in its schema.
select application_id, user_version, (select count(*) from sqlite_schema)
from pragma_application_id, pragma_user_version;

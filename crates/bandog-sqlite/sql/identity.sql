-- Reads which program created the database.
-- Parameters: none.
-- Result: application_id, user_version, the number of entries in its schema.
select application_id, user_version, (select count(*) from sqlite_schema)
from pragma_application_id, pragma_user_version;

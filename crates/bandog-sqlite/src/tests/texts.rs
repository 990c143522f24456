//! Tests of texts that bandog reads or writes: the kernel's files, the SQL files, error messages.

use std::{fs, path::Path};

use bandog_core::ErrorKind;
use rusqlite::{Connection, ffi};

use crate::{busy_wait::writer_in, fault::Fault, host::boottime_offset};

#[test]
fn the_offset_of_a_time_namespace_is_read() {
    assert_eq!(boottime_offset("monotonic           0         0\nboottime            0         0\n"), Some(0));
    assert_eq!(boottime_offset("monotonic 1 2\nboottime         -500       250\n"), Some(-499_999_999_750));
    assert_eq!(boottime_offset("monotonic 0 0\n"), None);
    assert_eq!(boottime_offset("boottime many\n"), None);
}

#[test]
fn the_process_in_a_transaction_is_found_among_the_locks() {
    let locks = "1: POSIX  ADVISORY  READ  11 08:01:77 123 123\n\
                 2: POSIX  ADVISORY  WRITE 12 08:01:78 120 120\n\
                 3: FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n\
                 4: POSIX  ADVISORY  WRITE 14 08:01:77 120 120\n\
                 4: -> POSIX  ADVISORY  WRITE 15 08:01:77 120 120\n";
    assert_eq!(writer_in(locks, 77), Some(14));
    assert_eq!(writer_in(locks, 7), None);
}

/// The header of each SQL file describes exactly the parameters of its statement.
#[test]
fn the_headers_of_the_sql_files_name_their_parameters() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(crate::sql::SCHEMA).unwrap();
    conn.execute_batch(crate::sql::REGISTRY).unwrap();
    conn.execute_batch(crate::sql::RECORDS).unwrap();
    conn.execute_batch(crate::sql::LOCKS).unwrap();
    conn.execute_batch(crate::sql::WORK).unwrap();
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/sql")).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let named: Vec<&str> = header.iter().filter_map(|line| line.strip_prefix("-- ?")?.split(' ').next()).collect();
        let numbers: Vec<String> = (1..=named.len()).map(|n| n.to_string()).collect();
        assert_eq!(named, numbers, "{path:?}");
        assert!(named.is_empty() == header.contains(&"-- Parameters: none."), "{path:?}");
        assert!(header.iter().any(|line| line.starts_with("-- Result: ")), "{path:?}");
        if !["schema", "registry", "records", "locks", "work", "queue_layout"]
            .contains(&path.file_stem().unwrap().to_str().unwrap())
        {
            assert_eq!(conn.prepare(&text).unwrap().parameter_count(), named.len(), "{path:?}");
        }
    }
}

#[test]
fn errors_report_their_kind_and_whether_the_request_may_have_been_applied() {
    let kind =
        |code| Fault::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).error(Path::new("x")).kind();
    for (code, expected) in [
        (ffi::SQLITE_BUSY, ErrorKind::Unavailable),
        (ffi::SQLITE_FULL, ErrorKind::Unavailable),
        (ffi::SQLITE_IOERR, ErrorKind::Unavailable),
        (ffi::SQLITE_READONLY, ErrorKind::Denied),
        (ffi::SQLITE_NOTADB, ErrorKind::Corrupt),
        (ffi::SQLITE_CORRUPT, ErrorKind::Corrupt),
        (ffi::SQLITE_ERROR, ErrorKind::Corrupt),
    ] {
        assert_eq!(kind(code), expected, "{code}");
    }
    let full = || rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None);
    assert!(!Fault::Sql(full()).error(Path::new("x")).maybe_applied());
    assert!(Fault::Commit(full()).error(Path::new("x")).maybe_applied());
}

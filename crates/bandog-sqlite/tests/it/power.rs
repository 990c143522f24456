//! Simulated power failures. The disk is an image, which is copied while it is in use. The copy contains all data that
//! was flushed to the disk, and no data that the kernel has only in memory. So it is like the disk after a power
//! failure.

use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

use bandog_core::Leases;
use bandog_sqlite::{Sqlite, SqliteOptions};

use crate::{
    disks::{mounted, quoted},
    records::{get, put},
    support::{TTL, TestDir, claim, release, take},
};

// Promise: RS2
#[test]
fn every_swap_that_was_answered_survives_a_power_failure() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount the image of a disk");
        return;
    }
    let dir = TestDir::new();
    let (disk, image) = (dir.path().with_file_name("disk"), dir.path().with_file_name("image"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(dir.path().with_file_name("after")).unwrap();
    File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let script = format!("mkfs.ext4 -q -F {image}\nmount -o loop {image} {}", quoted(&disk), image = quoted(&image));
    let output = mounted("power", &disk.join("new").join("locks.db"), &["-m"], &script);
    assert!(output.contains("nothing was lost"), "{output}");
}

/// The role `power` of a child.
pub(crate) async fn power(path: &Path) {
    let home = path.ancestors().nth(3).unwrap();
    let store = Sqlite::new(SqliteOptions::at(path)).unwrap();
    let mut version = None;
    for round in 0..5 {
        for n in 0..3 {
            let ours = claim("k", TTL);
            take(&store, &ours).await.unwrap();
            version = put(&store, "r", version, &format!("{round} {n}")).await;
            release(&store, &ours).await;
        }
        version = put(&store, "r", version, &round.to_string()).await;
        let (image, after) = (home.join(format!("image {round}")), home.join("after"));
        fs::copy(home.join("image"), &image).unwrap();

        run(Command::new("mount").arg("-o").arg("loop").args([&image, &after]));
        let left = Sqlite::new(SqliteOptions::at(after.join("new").join("locks.db")).must_exist()).unwrap();
        let record = get(&left, "r").await.expect("the record was lost");
        assert_eq!((record.value, Some(record.version)), (round.to_string(), version));
        left.ping().await.unwrap();
        assert!(take(&left, &claim("k", TTL)).await.is_some());
        drop(left);
        run(Command::new("umount").arg("-l").arg(&after));
    }
    println!("nothing was lost");
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

use std::io;

use super::{MAX_SIZE, PasswordFile};
use bandog_core::ErrorKind;

fn file(path: &str) -> PasswordFile {
    PasswordFile::of_url("password_file", path.into(), false).unwrap()
}

#[test]
fn one_line_end_is_no_part_of_the_password() {
    let read = |content: &str| file("/run/p").password(Ok(content.into())).unwrap();
    for (content, password) in
        [("p", "p"), ("p\n", "p"), ("p\r\n", "p"), ("p\n\n", "p\n"), (" p ", " p "), ("p\r", "p\r")]
    {
        assert_eq!(read(content), password);
    }
}

#[test]
fn an_unusable_file_is_named_without_its_content() {
    let contents = [
        vec![],
        b"\n".to_vec(),
        b"secret\xff".to_vec(),
        [b"secret".to_vec(), vec![b'x'; usize::try_from(MAX_SIZE).unwrap()]].concat(),
    ];
    let missing = Err(io::Error::from(io::ErrorKind::NotFound));
    for read in contents.into_iter().map(Ok).chain([missing]) {
        let error = file("/run/p").password(read).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.kind() == ErrorKind::Misused && text.contains("the file /run/p of ?password_file="), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn a_file_is_read_each_time() {
    let path = std::env::temp_dir().join(format!("bandog-password-{}", std::process::id()));
    let file = file(path.to_str().unwrap());
    assert_eq!(file.read().await.unwrap_err().kind(), ErrorKind::Misused);
    for password in ["one", "two"] {
        std::fs::write(&path, format!("{password}\n")).unwrap();
        assert_eq!(file.read().await.unwrap(), password);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_url_has_a_password_or_its_file() {
    let refused = |path: &str, has_password| {
        PasswordFile::of_url("password_file", path.into(), has_password).unwrap_err().to_string()
    };
    assert!(refused("/run/p", true).contains("only one of them") && refused("", false).contains("is empty"));
}

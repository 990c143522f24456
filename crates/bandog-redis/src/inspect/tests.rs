use super::*;

#[test]
fn an_owner_is_a_uuid_and_a_number() {
    for owner in ["957c1da6-54c9-4017-93c7-a4ef987df61c:19", "957C1DA6-54C9-4017-93C7-A4EF987DF61C:-42"] {
        assert!(ClientId::is_owner(owner), "{owner}");
    }
    for other in
        ["", "mode", "rust:1", "957c1da6-54c9-4017-93c7-a4ef987df61c", "957c1da6-54c9-4017-93c7-a4ef987df61c:x"]
    {
        assert!(!ClientId::is_owner(other), "{other}");
    }
}

#[test]
fn fuzz_rows() {
    const OWNER: &str = "957c1da6-54c9-8017-93c7-a4ef987df61c:19";
    let reply = |kind: &str, left: &str, token: &str, holders: &str, queue: &str, held: &str| {
        format!("*6\r\n${}\r\n{kind}\r\n:{left}\r\n{token}{holders}{queue}{held}", kind.len())
    };
    let (owner, none) = (format!("$39\r\n{OWNER}\r\n"), "*0\r\n");
    let token = "$16\r\n1790000000000063\r\n";
    let permit = format!("$33\r\n1790000000000063 {}\r\n", "x".repeat(16));
    let samples = [
        reply("hash", "29999", token, &format!("*1\r\n{owner}"), &format!("*1\r\n{owner}"), none),
        reply("read-write", "29999", token, &format!("*2\r\n{owner}:7\r\n"), none, &format!("*2\r\n{owner}{token}")),
        reply("read-write", "-1", "$-1\r\n", "*2\r\n$7\r\na:write\r\n:-1\r\n", none, none),
        reply(
            "semaphore",
            "5",
            "$-1\r\n",
            &format!("*4\r\n$16\r\n{}\r\n:7\r\n$1\r\na\r\n:8\r\n", "x".repeat(16)),
            none,
            &format!("*2\r\n{owner}{permit}"),
        ),
        "$-1\r\n".to_owned(),
        "-NOPERM this user has no permissions to access one of the keys\r\n".to_owned(),
    ];
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    crate::fuzz::replies("a lock's row", &samples, |reply| match row("orders", &reply) {
        Ok(Some(row)) => {
            assert!(row.is_held() && row.owner().is_none_or(|owner| !ClientId::is_owner(owner) || owner.len() > 36));
            let _ = row.holders[0].since();
            true
        }
        Ok(None) | Err(_) => false,
    });
}

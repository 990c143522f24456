use super::*;

#[test]
fn the_command_line_is_sound() {
    command().debug_assert();
}

#[test]
fn an_option_before_its_subcommand_gets_a_hint() {
    let said = |words: &[&str]| {
        let error = parse([&["bandog"], words].concat()).unwrap_err();
        plain(&with_option_place(without_wrong_tip(error)))
    };
    for (words, example) in [
        (&["--force", "release", "x"][..], "`bandog release --force`"),
        (&["jobs", "--count", "3", "next"], "`bandog jobs next --count`"),
        (&["--http=127.0.0.1:80", "schedule", "x"], "`bandog schedule --http`"),
    ] {
        let message = said(words);
        assert!(message.contains(&format!("after all words of the subcommand, as in {example}")), "{message}");
    }
    let message = said(&["jobs", "ls", "--urll", "x"]);
    assert!(message.contains("similar argument exists: '--url'") && !message.contains("after all words"), "{message}");
}

#[test]
fn the_page_for_users_has_every_command_and_option() {
    let page = include_str!("../../../../docs/command.md");
    let mut command = command();
    command.build();
    for command in command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "demo") {
        assert!(page.contains(&format!("bandog {}", command.get_name())) || command.get_name() == "help");
        for long in command.get_arguments().filter_map(clap::Arg::get_long).filter(|long| *long != "verbose") {
            assert!(
                page.contains(&format!("--{long}")),
                "docs/command.md says nothing of {} --{long}",
                command.get_name()
            );
        }
    }
    for code in [64, 69, 70, 71, 75, 76, 77] {
        assert!(page.contains(&format!("\n| {code} | ")), "{code}");
    }
}

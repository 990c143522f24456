use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn durations_have_a_unit_and_bounds() {
    assert_eq!(lease("500ms"), Ok(Duration::from_millis(500)));
    assert_eq!(wait("2m"), Ok(Duration::from_secs(120)));
    assert_eq!(wait("0s"), Ok(Duration::ZERO));
    for wrong in ["0s", "99ms", "366d", "-5s", "10", "", "soon", "99999999999999999999s"] {
        assert!(lease(wrong).unwrap_err().contains("100ms to 365d"), "{wrong}");
    }
}

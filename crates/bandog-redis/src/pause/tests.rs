use super::*;

#[test]
fn the_first_dial_is_at_once_and_later_ones_come_less_often() {
    let mut pause = Pause::default();
    assert_eq!(pause.take(), Duration::ZERO);
    for most in [5, 10, 20, 40, 80, 160, 200, 200] {
        let most = Duration::from_millis(most);
        let pause = pause.take();
        assert!(pause <= most && pause >= most * 3 / 4, "{pause:?} of {most:?}");
    }
}

#[test]
fn only_a_connection_that_lasted_makes_the_next_dial_immediate() {
    let mut pause = Pause::default();
    pause.take();
    pause.lived(Duration::from_millis(1));
    assert!(pause.take() > Duration::ZERO);
    pause.lived(Duration::from_secs(1));
    assert_eq!(pause.take(), Duration::ZERO);
}

//! The history of a record, which consists of lines. Each line has a slot, which is the name of the line's place. A new
//! line replaces the earlier line of the same slot.

use bandog_core::{ErrorKind, Line, Records, Swap, Swapped, Version};

use crate::{
    Law, World,
    kit::{error_kind, odd_names},
    record_kit::{RECORD, get, key, line, must_swap, record_and_history, swap, write},
};

/// Law 121: the lines of a swap are written in the same step as the record, and only if the swap is done. A line stays
/// until a swap writes its slot again.
// Promise: R2
pub async fn record_lines<W: World>(world: &W) -> Law {
    world.records()?; // This law applies only if the backend supports records.
    let (a, b) = (world.client(), world.client());
    let swap_with = |from, lines: &[Line]| Swap { lines: lines.to_vec(), ..write(RECORD, from, "value") };
    let [one, two, three] = [line("ok:0", "one"), line("ok:1", "two"), line("ok:1", "three")];
    let first = must_swap(&a, swap_with(None, &[one.clone(), two.clone()])).await?;
    assert_eq!(b.records().history(&key(RECORD)).await?, [one.clone(), two.clone()]);
    let second = must_swap(&b, write(RECORD, Some(first), "without lines")).await?;
    assert_eq!(a.records().history(&key(RECORD)).await?, [one.clone(), two]);
    for wrong in [Some(first), None, Version::new(1)] {
        assert!(matches!(swap(&a, swap_with(wrong, &[line("ok:0", "wrong")])).await?, Swapped::Differs(Some(_))));
    }
    let third = must_swap(&b, swap_with(Some(second), std::slice::from_ref(&three))).await?;
    assert_eq!(b.records().history(&key(RECORD)).await?, [one.clone(), three]);

    // If one swap has two lines for the same slot, the second line is kept.
    must_swap(&a, swap_with(Some(third), &[line("ok:1", "four"), line("ok:0", "five"), line("ok:1", "six")])).await?;
    assert_eq!(b.records().history(&key(RECORD)).await?, [line("ok:0", "five"), line("ok:1", "six")]);
    Ok(())
}

/// Law 122: if a writer uses a fixed number of slots in turn, the history never has more lines than this number. The
/// lines are sorted by the bytes of the names of their slots.
// Promise: R9
pub async fn record_slots_go_round<W: World>(world: &W) -> Law {
    const SLOTS: u32 = 12;
    world.records()?;
    let client = world.client();
    let mut from = None;
    for round in 0..2 * SLOTS + 5 {
        let lines = vec![line(&format!("ok:{}", round % SLOTS), &round.to_string())];
        from = Some(must_swap(&client, Swap { lines, ..write(RECORD, from, &round.to_string()) }).await?);
    }
    let mut expected: Vec<Line> =
        (SLOTS + 5..2 * SLOTS + 5).map(|round| line(&format!("ok:{}", round % SLOTS), &round.to_string())).collect();
    expected.sort_by(|a, b| a.slot.cmp(&b.slot));
    assert_eq!(client.records().history(&key(RECORD)).await?, expected);
    Ok(())
}

/// Law 123: every allowed name of a slot works and is returned unchanged. If a swap has a line whose slot has an
/// invalid name, the call of `swap` fails with `ErrorKind::Misused`, and none of its swaps is done.
// Promise: R10
pub async fn record_odd_slots<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let mut slots: Vec<String> = odd_names().into_iter().filter(|slot| slot.len() <= 64).collect();
    slots.extend(["x".repeat(64), "🐕".repeat(16), "Ok:0".into(), "ok:0".into()]);
    let lines: Vec<Line> = slots.iter().map(|slot| line(slot, slot)).collect();
    let version = must_swap(&client, Swap { lines, ..write(RECORD, None, "one") }).await?;
    slots.sort();
    let kept: Vec<Line> = slots.iter().map(|slot| line(slot, slot)).collect();
    assert_eq!(client.records().history(&key(RECORD)).await?, kept);

    for wrong in ["", "tab\t", "line\n", "nul\0", "delete\u{7f}", &"x".repeat(65), &format!("{}x", "🐕".repeat(16))] {
        let bad = Swap { lines: vec![line("good", ""), line(wrong, "")], ..write(RECORD, Some(version), "two") };
        let error = client
            .records()
            .swap(&[write("other", None, "one"), bad])
            .await
            .expect_err("an invalid name of a slot was accepted");
        assert_eq!(error.kind(), ErrorKind::Misused, "{wrong:?}");
        assert!(error.to_string().contains(&format!("{wrong:?}")), "{error}");
    }
    assert_eq!(get(&client, "other").await?, None);
    let (record, history) = record_and_history(&client, RECORD).await?;
    assert_eq!((record.map(|record| record.version), history), (Some(version), kept));
    assert_eq!(error_kind(client.records().history(&key("other")).await), None);
    Ok(())
}

/// Law 124: each record has its own history, even if the names of two records are similar.
// Promise: R9
pub async fn record_histories_apart<W: World>(world: &W) -> Law {
    world.records()?;
    let client = world.client();
    let names = ["a", "a:ok", "a:ok:0", "a/ok", "A", "a ", "a{ok:0}", "{a}"];
    for name in names {
        must_swap(&client, Swap { lines: vec![line("ok:0", name), line(name, "ok:0")], ..write(name, None, name) })
            .await?;
    }
    for name in names {
        let mut expected = [line("ok:0", name), line(name, "ok:0")];
        expected.sort_by(|a, b| a.slot.cmp(&b.slot));
        assert_eq!(client.records().history(&key(name)).await?, expected, "{name:?}");
    }
    Ok(())
}

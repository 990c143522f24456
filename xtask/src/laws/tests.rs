use super::*;

fn law(number: u32, name: &str) -> Law {
    Law { number, name: name.to_owned(), text: "a text".to_owned() }
}

/// Results of these laws on every backend: the first is not promised by any, and the others passed.
fn results(laws: &[Law]) -> String {
    let mut lines = String::new();
    for (at, law) in laws.iter().enumerate() {
        let result = if at == 0 { "not promised\tit cannot" } else { "passed\t" };
        lines.extend(
            BACKENDS.iter().map(|backend| format!("{}\t{}\t{}\t{result}\n", law.number, law.name, backend.world)),
        );
    }
    lines
}

#[test]
fn a_page_has_the_results_from_which_it_was_made() {
    let laws = [law(1, "one"), law(1, "other"), law(101, "record")];
    let mut lines = results(&laws);
    lines += "1\tone\tone file\tpassed\t\n";
    let lines = lines.replace("1\tother\tredis\tpassed\t", "1\tother\tredis\tin part\tit does not support fair");
    let (outcomes, problems) = outcomes(&lines);
    assert_eq!(problems, [""; 0]);
    assert_eq!(missing(&laws, &outcomes), [""; 0]);
    let page = page::render(&laws, &outcomes);
    let line = "\n- 1 `one`: a text. *Except*: mutex modes, quorum, memory, SQLite, Redis, Redis Cluster, ";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("\n- 1 `other`: a text. *In part*: Redis (2)\n\n## Records\n"), "{page}");
    assert!(page.contains("\n1. it cannot\n2. it does not support fair\n"), "{page}");
    assert_eq!(page::parse(&page), outcomes);
    // A store that the page does not name has no results.
    assert_eq!(missing(&laws, &page::parse(&page.replace(", SQLite", ""))).len(), 3);
}

#[test]
fn a_law_without_a_result_is_a_problem() {
    let laws = [law(1, "one"), law(2, "two")];
    let lines = results(&laws).replace("2\ttwo\tsqlite\tpassed\t\n", "");
    let (without, _) = outcomes(&lines);
    assert_eq!(missing(&laws, &without), ["law 2 (two) has no result on sqlite"]);
    let page = page::render(&laws, &without);
    assert!(page.contains("\n- 2 `two`: a text. *No result*: SQLite\n"), "{page}");
    assert_eq!(page::parse(&page), without);
}

#[test]
fn two_different_results_of_a_law_are_a_problem() {
    let laws = [law(1, "one"), law(2, "two")];
    let twice = results(&laws) + "2\ttwo\tredis\tpassed\t\n";
    assert_eq!(outcomes(&twice).1, [""; 0]);
    assert_eq!(outcomes(&(twice + "2\ttwo\tredis\tnot promised\tno\n")).1.len(), 1);
    assert_eq!(outcomes("2\ttwo\tredis\tbroken\t\n").1.len(), 1);
}

#[test]
fn laws_are_found_in_the_code() {
    let list = "        $crate::one_law! { $test $world, 30, lease, expires_after_ttl }\n";
    assert_eq!(code::listed(list), [(30, "lease".to_owned(), "expires_after_ttl".to_owned())]);
    let source = "/// Law 30: a hold that [`World`] does not\n/// renew expires. Not earlier.\npub async fn a<W>() {\n\n\
        /// Laws 83 and 84, for holders: each call. Yes.\n#[expect(x)]\n// Promise: L5\npub async fn b<W>() {\n/// No law.\npub async fn c<W>() {";
    let sentence = |name| code::first_sentence(source, name);
    assert_eq!(sentence("a").as_deref(), Some("a hold that `World` does not renew expires"));
    assert_eq!(sentence("b").as_deref(), Some("for holders: each call"));
    assert_eq!(sentence("c"), None);
    let two = "pub async fn one<W: World>(world: &W) -> Law {\n}\npub async fn help(world: &World) {\n}\nasync fn no<W: World>(world: &W) -> Law {";
    assert_eq!(code::functions(two), ["one"]);
    crate::step::enter_root().unwrap();
    assert!(code::laws().unwrap().len() > 150);
    assert!(code::worlds().unwrap().contains("postgres with mode=rowlock"));
}

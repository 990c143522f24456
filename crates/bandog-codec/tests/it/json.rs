//! JSON without and with names of classes.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use bandog_codec::{Decode, Encode, KryoValue, TaggedJson, TypedJson};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, IgnoredAny, Visitor},
    ser::SerializeMap,
};
use serde_json::Value;

use crate::golden::{Line, both_ways, encoded, scalar_both_ways, section, unquoted};

/// The class `User` of the Java program, with the fields in its order.
#[derive(Serialize, Deserialize, Default, Debug, PartialEq, Clone)]
#[serde(default)]
pub(crate) struct User {
    name: Option<String>,
    age: i32,
    id: i64,
    owner: Option<i64>,
    score: Option<f64>,
    ratio: f32,
    active: bool,
    level: Option<i32>,
    tags: Option<Vec<String>>,
    visits: Option<Vec<i64>>,
    counts: Option<HashMap<String, i32>>,
    address: Option<Address>,
    former: Option<Vec<Address>>,
    colour: Option<Colour>,
    photo: Option<Base64>,
    digits: Option<Vec<i32>>,
    words: Option<Vec<String>>,
    #[serde(rename = "Zeta")]
    zeta: Option<String>,
    #[serde(rename = "éclair")]
    eclair: Option<String>,
}

#[derive(Serialize, Deserialize, Default, Debug, PartialEq, Clone)]
pub(crate) struct Address {
    city: Option<String>,
    zip: i32,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Colour {
    Red,
    DarkBlue,
}

/// The class `Odd` of the Java program, with the fields in its order.
#[derive(Serialize, Deserialize)]
struct Odd {
    #[serde(rename = "\u{fb01}")]
    ligature: i32,
    #[serde(rename = "😀")]
    face: i32,
    #[serde(rename = "b\"c")]
    quote: i32,
    #[serde(rename = "b c")]
    blank: i32,
    #[serde(rename = "B")]
    upper: i32,
    empty: i32,
    #[serde(rename = "b\u{1}")]
    control: i32,
    #[serde(rename = "b")]
    lower: i32,
    #[serde(rename = "é")]
    accent: i32,
}

/// A `byte[]`.
#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Base64(pub(crate) Vec<u8>);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Base64, E> {
                Ok(Base64(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

macro_rules! newtypes {
    ($($name:ident $inner:ty),*) => { $(
        #[derive(Serialize, Deserialize)]
        struct $name($inner);
    )* };
}

newtypes!(Uuid String, Date i64, Atomic i64, Set Vec<String>, JavaLong i64);

pub(crate) fn full() -> User {
    User {
        name: Some("Ann \"A\" é 😀".to_owned()),
        age: 7,
        id: 5,
        owner: Some(6),
        score: Some(1e10),
        ratio: 0.1,
        active: true,
        level: Some(3),
        tags: Some(vec!["b".to_owned(), "a".to_owned()]),
        visits: Some(vec![1, 1 << 40]),
        counts: Some([("x".to_owned(), 1)].into()),
        address: Some(Address { city: Some("Ulm".to_owned()), zip: 89073 }),
        former: Some(vec![Address::default()]),
        colour: Some(Colour::DarkBlue),
        photo: Some(Base64(vec![1, 2, 255])),
        digits: Some(vec![1, 2]),
        words: Some(vec!["v".to_owned(), "w".to_owned()]),
        zeta: Some("upper".to_owned()),
        eclair: Some("accent".to_owned()),
    }
}

fn odd() -> Odd {
    Odd { ligature: 1, face: 2, quote: 3, blank: 4, upper: 5, empty: 6, control: 7, lower: 8, accent: 9 }
}

fn ulm(zip: i32) -> Address {
    Address { city: Some("Ulm".to_owned()), zip }
}

/// Checks an object in both directions. Returns false if the form depends on the codec.
macro_rules! object_both_ways {
    ($codec:expr, $line:expr) => {{
        let (codec, line): (_, &Line) = ($codec, $line);
        let (label, bytes) = (line.label.as_str(), line.bytes().unwrap());
        let text = |text: &str| text.to_owned();
        match label {
            "user empty" => both_ways(codec, &User::default(), &bytes, label),
            "odd" => both_ways(codec, &odd(), &bytes, label),
            "colour" => both_ways(codec, &Colour::Red, &bytes, label),
            "list of strings" => both_ways(codec, &vec![text("a"), text("b")], &bytes, label),
            "list of integers" => both_ways(codec, &vec![1_i32, 2], &bytes, label),
            "list of longs" => both_ways(codec, &(1_i64, 2_i64), &bytes, label),
            "list of doubles" => both_ways(codec, &vec![1.0, 1e10], &bytes, label),
            "list of lists" => both_ways(codec, &vec![vec![1_i32], vec![]], &bytes, label),
            "list of objects" => both_ways(codec, &vec![ulm(1), Address { city: None, zip: 2 }], &bytes, label),
            "list with null" => both_ways(codec, &vec![Some(1_i32), None], &bytes, label),
            "list empty" => both_ways(codec, &Vec::<i32>::new(), &bytes, label),
            "map with null" => {
                let map = BTreeMap::from([(text("a"), None), (text("b"), Some(1_i32))]);
                both_ways(codec, &map, &bytes, label);
            }
            "map empty" => both_ways(codec, &BTreeMap::<String, i32>::new(), &bytes, label),
            "map of longs" => both_ways(codec, &BTreeMap::from([(text("k"), 5_i64)]), &bytes, label),
            "map of objects" => both_ways(codec, &BTreeMap::from([(text("k"), ulm(1))]), &bytes, label),
            "tree map" => {
                let keys = ["b", "a", "\u{ff01}", "😀", "Z", ""];
                let map: HashMap<_, _> = keys.map(|key| (text(key), 1_i32)).into();
                both_ways(codec, &map, &bytes, label);
            }
            "bytes" => both_ways(codec, &Base64(vec![0, 1, 2, 255]), &bytes, label),
            "bytes empty" => both_ways(codec, &Base64(vec![]), &bytes, label),
            "bytes of 100" => both_ways(codec, &Base64(vec![0; 100]), &bytes, label),
            "big integer" => both_ways(codec, &u64::MAX, &bytes, label),
            "uuid" => both_ways(codec, &Uuid(text("00000000-0000-8000-8000-000000000001")), &bytes, label),
            "date" => both_ways(codec, &Date(1_790_000_000_000), &bytes, label),
            "atomic" => both_ways(codec, &Atomic(5), &bytes, label),
            "set" => both_ways(codec, &Set(vec![text("a")]), &bytes, label),
            "big decimal" => assert_eq!(Decode::<f64>::decode(codec, &bytes).unwrap(), 1.5),
            "ints" => assert_eq!(Decode::<Vec<i32>>::decode(codec, &bytes).unwrap(), [1, -1]),
            "longs" => assert_eq!(Decode::<(i64, i64)>::decode(codec, &bytes).unwrap(), (1, -1)),
            "doubles" => assert!(Decode::<Vec<f64>>::decode(codec, &bytes).unwrap()[1].is_nan()),
            "strings" => assert_eq!(Decode::<[String; 2]>::decode(codec, &bytes).unwrap(), ["a", "b"]),
            "user full" | "linked map of keys" => {}
            other => panic!("{other}"),
        }
    }};
}

/// The codec for a line of a value with classes.
fn tagged(label: &str) -> TaggedJson {
    let root = match label {
        "odd" => "bandog.codecs.Odd",
        "tree map" => "java.util.TreeMap",
        "linked map of keys" => "java.util.LinkedHashMap",
        label if label.starts_with("map") => "java.util.HashMap",
        _ => "bandog.codecs.User",
    };
    let classes = [
        ("Address", "bandog.codecs.Address"),
        ("Uuid", "java.util.UUID"),
        ("Date", "java.util.Date"),
        ("Atomic", "java.util.concurrent.atomic.AtomicLong"),
        ("Set", "java.util.HashSet"),
        ("JavaLong", "java.lang.Long"),
    ];
    classes.into_iter().fold(TaggedJson::of(root), |codec, (name, class)| codec.class(name, class))
}

#[test]
fn scalars_have_the_bytes_of_java() {
    for line in section("typed-json", "scalars") {
        scalar_both_ways!(TypedJson, &line);
    }
    for line in section("tagged-json", "scalars") {
        scalar_both_ways!(tagged(""), &line);
    }
}

#[test]
fn objects_have_the_bytes_of_java() {
    for line in section("typed-json", "objects") {
        object_both_ways!(&TypedJson, &line);
        if line.label == "user full" {
            both_ways(&TypedJson, &full(), &line.bytes().unwrap(), &line.label);
        }
    }
}

#[test]
fn objects_with_classes_have_the_bytes_of_java() {
    for line in section("tagged-json", "objects") {
        let codec = tagged(&line.label);
        object_both_ways!(&codec, &line);
        if line.label == "user full" {
            // Arrays have no class in Java. They are read, but a list is written with one.
            let bytes = line.bytes().unwrap();
            let ann: User = codec.decode(&bytes).unwrap();
            assert_eq!(ann, full());
            let java = String::from_utf8(bytes).unwrap();
            let java = java.replace(r#","digits":[1,2]"#, "").replace(r#","words":["v","w"]"#, "");
            both_ways(&codec, &User { digits: None, words: None, ..full() }, java.as_bytes(), &line.label);
        }
    }
}

/// Java does not sort its own maps.
#[test]
fn keys_of_maps_have_the_text_of_java() {
    struct Keys;
    impl Serialize for Keys {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry(&-5_i32, &1)?;
            map.serialize_entry(&(1_i64 << 40), &2)?;
            map.serialize_entry(&1.5, &3)?;
            map.serialize_entry(&Some(1e10), &4)?;
            map.serialize_entry(&true, &5)?;
            map.serialize_entry(&'c', &6)?;
            map.serialize_entry(&Colour::Red, &7)?;
            map.end()
        }
    }
    let lines = section("typed-json", "objects");
    let java = String::from_utf8(lines.iter().find(|line| line.label.starts_with("linked")).unwrap().bytes().unwrap());
    let java = java.unwrap();
    let mut entries: Vec<_> = java[1..java.len() - 1].split(',').collect();
    entries.sort_unstable();
    let ours = String::from_utf8(encoded(&TypedJson, &Keys)).unwrap();
    assert_eq!(ours, format!("{{{}}}", entries.join(",")));
}

#[test]
fn keys_of_maps_are_read_as_their_types() {
    fn both<K: Serialize + for<'de> Deserialize<'de> + Ord>(key: K, json: &str) {
        both_ways(&TypedJson, &BTreeMap::from([(key, 1)]), json.as_bytes(), json);
    }
    #[derive(Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    enum Side {
        Left,
    }
    #[derive(Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    struct Id(u64);
    both(-5_i8, r#"{"-5":1}"#);
    both(i128::MIN, r#"{"-170141183460469231731687303715884105728":1}"#);
    both(true, r#"{"true":1}"#);
    both('é', r#"{"é":1}"#);
    both("a\n😀".to_owned(), r#"{"a\n\uD83D\uDE00":1}"#);
    both(Side::Left, r#"{"Left":1}"#);
    both(Id(u64::MAX), r#"{"18446744073709551615":1}"#);
    both(Some(7_u16), r#"{"7":1}"#);
    assert!(Decode::<BTreeMap<u8, u8>>::decode(&TypedJson, br#"{"256":1}"#).is_err());
    let error = TypedJson.encode(&BTreeMap::from([((1, 2), 3)]), &mut Vec::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "TypedJson: a key of a map is text, a number, a bool, a char or a variant without data"
    );
}

/// Java reads these, and this codec does not: numbers in other forms, a name twice, and text behind the value. It reads no
/// null as a User, which needs an Option.
const STRICTER: [&str; 6] =
    [r#"{"age":7.0}"#, r#"{"age":"7"}"#, r#"{"id":-0}"#, r#"{"age":7,"age":8}"#, r#"{"age":7}x"#, "null"];

#[test]
fn json_is_read_as_java_reads_it() {
    for line in section("typed-json", "read as a User") {
        let text = unquoted(line.label.strip_prefix("read ").unwrap());
        let ours = Decode::<User>::decode(&TypedJson, text.as_bytes());
        let Some((_, java)) = line.read().filter(|_| !STRICTER.contains(&&*text)) else {
            assert!(ours.is_err(), "{text}");
            continue;
        };
        let ours = ours.unwrap_or_else(|error| panic!("{text}: {error}"));
        let number = |number: Option<f64>| number.map_or("null".to_owned(), bandog_codec::number::java);
        assert!(java.contains(&format!("age={}, id={}, ", ours.age, ours.id)), "{text}: {java}");
        assert!(java.contains(&format!("score={}, ", number(ours.score))), "{text}: {java}");
        assert!(java.contains(&format!("name={}, ", ours.name.as_deref().unwrap_or("null"))), "{text}: {java}");
    }
    for line in section("typed-json", "read as a String") {
        let text = unquoted(line.label.strip_prefix("read ").unwrap());
        let ours = Decode::<String>::decode(&TypedJson, text.as_bytes());
        let is_stricter = text == "5" || text == r#""\ud800""#;
        let java = line.read().filter(|_| !is_stricter).map(|(_, text)| text);
        assert_eq!(ours.ok(), java, "{text}");
    }
}

/// What Java reads, and refuses, is what the codec must, and must not, write.
#[test]
fn java_reads_what_is_written_with_classes() {
    #[derive(Serialize, Default)]
    struct User {
        id: Option<Primitive>,
        owner: Option<i64>,
        visits: Option<Vec<i64>>,
        counts: Option<BTreeMap<String, i32>>,
        tags: Option<Vec<String>>,
    }
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Primitive(i64);
    let reads = section("tagged-json", "read");
    let codec = tagged("");
    let user = |user: User| String::from_utf8(encoded(&codec, &user)).unwrap();
    for json in [
        user(User { owner: Some(5), ..User::default() }),
        user(User { visits: Some(vec![5]), ..User::default() }),
        user(User { counts: Some([("x".to_owned(), 1)].into()), ..User::default() }),
        user(User { tags: Some(vec!["a".to_owned()]), ..User::default() }),
    ] {
        let line = reads.iter().find(|line| unquoted(&line.label[5..]) == json);
        assert!(line.unwrap_or_else(|| panic!("Java was not given {json}")).read().is_some(), "{json}");
    }
    #[derive(Serialize)]
    struct Plain {
        id: i64,
    }
    let json = encoded(&TaggedJson::of("bandog.codecs.User"), &Plain { id: 5 });
    let line = reads.iter().find(|line| unquoted(&line.label[5..]).as_bytes() == json).unwrap();
    assert!(line.read().is_some());
}

#[test]
fn values_with_classes_are_read() {
    let codec = tagged("");
    let address = |json: &str| Decode::<User>::decode(&codec, json.as_bytes()).map(|user| user.address);
    let ulm = Ok(Some(ulm(0)));
    assert_eq!(address(r#"{"address":{"zip":0,"@class":"bandog.codecs.Address","city":"Ulm"}}"#), ulm);
    assert_eq!(address(r#"["bandog.codecs.User",{"address":["bandog.codecs.Address",{"city":"Ulm","zip":0}]}]"#), ulm);
    let error = address(r#"{"address":{"city":"Ulm","@class":"bandog.codecs.Castle"}}"#).unwrap_err();
    assert_eq!(error.class(), Some("bandog.codecs.Castle"));
    let error = address(r#"{"@class":"org.redisson.spring.cache.NullValue"}"#).unwrap_err();
    assert_eq!(error.class(), Some("org.redisson.spring.cache.NullValue"));
    assert_eq!(
        error.to_string(),
        "TaggedJson: expected a class of User in it::json::User at byte 47, and found an object of the Java class \
         org.redisson.spring.cache.NullValue; if the type can read this class, add it by .class(…)"
    );
    let two = tagged("").class("User", "com.acme.Admin");
    assert_eq!(Decode::<User>::decode(&two, br#"{"@class":"com.acme.Admin","age":7}"#).unwrap().age, 7);

    let map = br#"{"a":["java.lang.Long",1],"@class":"java.util.TreeMap","b":2}"#;
    assert_eq!(Decode::<BTreeMap<String, i64>>::decode(&codec, map).unwrap().len(), 2);
    let any: Value =
        codec.decode(br#"{"@class":"a.B","list":["java.util.ArrayList",[["java.lang.Long",1],["a","b"]]]}"#).unwrap();
    assert_eq!(any, serde_json::json!({"list": [1, ["a", "b"]]}));
    assert_eq!(Decode::<Option<JavaLong>>::decode(&codec, br#"["java.lang.Long",5]"#).unwrap().unwrap().0, 5);
    assert_eq!(Decode::<i128>::decode(&codec, br#"["java.math.BigInteger", 5]"#).unwrap(), 5);
    assert_eq!(Decode::<Vec<String>>::decode(&codec, br#"["java.lang.Long","b"]"#).unwrap().len(), 2);
    assert!(Decode::<i64>::decode(&codec, br#"["java.lang.Long",5,6]"#).is_err());
    assert!(Decode::<i64>::decode(&codec, br#"["java.lang.Long"]"#).is_err());
}

#[test]
fn a_struct_without_a_class_is_refused() {
    let codec = TaggedJson::of("bandog.codecs.User");
    let mut to = b"before".to_vec();
    let error = codec.encode(&full(), &mut to).unwrap_err();
    assert_eq!(error.to_string(), r#"TaggedJson: the struct Address has no Java class; add .class("Address", …)"#);
    assert_eq!(to, b"before");
    #[derive(Serialize)]
    enum Shape {
        Circle { radius: f64 },
    }
    assert!(codec.encode(&Shape::Circle { radius: 1.0 }, &mut to).is_err());
    assert_eq!(encoded(&TypedJson, &Shape::Circle { radius: 1.0 }), br#"{"Circle":{"radius":1.0}}"#);
}

/// A struct inside of itself has the class of the outermost one.
#[test]
fn a_recursive_struct_has_one_class() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Node {
        id: u32,
        next: Option<Box<Node>>,
    }
    let codec = TaggedJson::of("a.Node");
    let node = Node { id: 1, next: Some(Box::new(Node { id: 2, next: None })) };
    let json = br#"{"@class":"a.Node","id":1,"next":{"@class":"a.Node","id":2}}"#;
    both_ways(&codec, &node, json, "node");
    assert!(Decode::<Node>::decode(&codec, br#"{"id":1,"next":{"@class":"a.Other","id":2}}"#).is_err());
}

#[test]
fn forms_of_serde_are_kept() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    enum Shape {
        Empty,
        Circle(f64),
        Line(i32, i32),
        Box { width: i32, height: i32 },
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    #[serde(tag = "type")]
    enum Inside {
        One { b: i32, a: i32 },
    }
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Outer {
        z: i32,
        #[serde(flatten)]
        inner: BTreeMap<String, i32>,
    }
    both_ways(&TypedJson, &Shape::Empty, br#""Empty""#, "unit");
    both_ways(&TypedJson, &Shape::Circle(1.0), br#"{"Circle":1.0}"#, "newtype");
    both_ways(&TypedJson, &Shape::Line(1, 2), br#"{"Line":[1,2]}"#, "tuple");
    both_ways(&TypedJson, &Shape::Box { width: 1, height: 2 }, br#"{"Box":{"height":2,"width":1}}"#, "struct");
    both_ways(&TypedJson, &Inside::One { b: 1, a: 2 }, br#"{"a":2,"b":1,"type":"One"}"#, "internal");
    let outer = Outer { z: 1, inner: [("a".to_owned(), 2)].into() };
    both_ways(&TypedJson, &outer, br#"{"a":2,"z":1}"#, "flat");
    both_ways(&TypedJson, &(), b"null", "unit");
    both_ways(&TypedJson, &Some(Some(1)), b"1", "options");
    both_ways(&TypedJson, &(1_u8, "a".to_owned(), None::<i32>), br#"[1,"a",null]"#, "tuple");
    both_ways(&TypedJson, &i128::MIN, i128::MIN.to_string().as_bytes(), "i128");
    both_ways(&TypedJson, &u128::MAX, u128::MAX.to_string().as_bytes(), "u128");
    assert_eq!(Decode::<Shape>::decode(&TypedJson, br#" { "Empty" : null } "#).unwrap(), Shape::Empty);
    assert_eq!(Decode::<Shape>::decode(&TypedJson, br#"{"Box":[1,2]}"#).unwrap(), Shape::Box { width: 1, height: 2 });
}

/// Floats are rounded correctly, which serde_json does not promise, and an `f32` is rounded once.
#[test]
fn floats_are_rounded_once() {
    for text in ["9007199254740993", "1.00000000000000011102230246251565", "123456789.123456789e-20", "4.9e-324", "0.1"]
    {
        let ours: f64 = TypedJson.decode(text.as_bytes()).unwrap();
        assert_eq!(ours, text.parse::<f64>().unwrap(), "{text}");
    }
    let text = "1.00000017881393432617187499";
    assert_eq!(Decode::<f32>::decode(&TypedJson, text.as_bytes()).unwrap(), text.parse::<f32>().unwrap());
    assert!(Decode::<f64>::decode(&TypedJson, b"1e309").is_err());
    assert!(Decode::<f32>::decode(&TypedJson, b"1e39").is_err());
    assert_eq!(Decode::<f32>::decode(&TypedJson, br#""-Infinity""#).unwrap(), f32::NEG_INFINITY);
}

/// The reader accepts what serde_json accepts, and reads the same.
#[test]
fn json_is_read_as_serde_json_reads_it() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for text in [
        "",
        " ",
        "null",
        "nul",
        "nulll",
        "true",
        "false",
        "\"\"",
        "\"a",
        "\"a\\",
        "\"\\x\"",
        "\"\\u00e9\"",
        "\"\\u00E9x\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\uD83D\"",
        "\"\\uDE00\"",
        "\"\\uD83D\\u0041\"",
        "\"\\uD83Dx\"",
        "\"\\u00g9\"",
        "\"\\u00\"",
        "\"\u{1}\"",
        "\"\u{7f}\u{2028}\"",
        "\"\\/\\b\\f\\n\\r\\t\\\"\\\\\"",
        "0",
        "-0",
        "-1",
        "1",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1.5",
        "1e5",
        "1E+5",
        "1e-5",
        "1e",
        "1e+",
        "1.5e3",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e308",
        "1e309",
        "1e-400",
        "[]",
        "[1]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,2",
        "[",
        "]",
        "{}",
        r#"{"a":1}"#,
        r#"{"a":1,}"#,
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{a:1}"#,
        r#"{"a":1"#,
        r#"{"a":1 "b":2}"#,
        "[1]x",
        "[1] ",
        " [ 1 , { \"a\" : [ ] } ] ",
        "\u{a0}1",
        "NaN",
        "Infinity",
        "//",
        "[1]//",
        "'a'",
        "{\"a\":1,\"a\":2}",
    ] {
        let ours = Decode::<Value>::decode(&TypedJson, text.as_bytes());
        let theirs = serde_json::from_str::<Value>(text);
        assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{text:?}: {ours:?}");
        // What is ignored is not computed: a number may be too great.
        let ignored = Decode::<IgnoredAny>::decode(&TypedJson, text.as_bytes()).is_ok();
        assert!(ignored || theirs.is_err(), "{text:?}");
        assert!(!ignored || serde_json::from_str::<IgnoredAny>(text).is_ok(), "{text:?}");
    }
    for depth in [127, 128, 129, 100_000] {
        let ours = Decode::<Value>::decode(&TypedJson, nested(depth).as_bytes());
        assert_eq!(ours.is_ok(), depth <= 128, "{depth}");
    }
}

#[test]
fn properties_are_sorted_at_each_level() {
    #[derive(Serialize)]
    struct Z {
        z: Vec<Y>,
        b: Y,
        a: Option<i32>,
        c: BTreeMap<u32, Y>,
    }
    #[derive(Serialize, Clone)]
    struct Y {
        y: i32,
        x: Option<&'static str>,
    }
    let y = Y { y: 1, x: Some("x") };
    let value =
        Z { z: vec![y.clone(), Y { y: 2, x: None }], b: y.clone(), a: None, c: [(9, y.clone()), (10, y)].into() };
    let json = r#"{"b":{"x":"x","y":1},"c":{"10":{"x":"x","y":1},"9":{"x":"x","y":1}},"z":[{"x":"x","y":1},{"y":2}]}"#;
    assert_eq!(String::from_utf8(encoded(&TypedJson, &value)).unwrap(), json);
}

/// The golden labels of scalars are all types.
#[test]
fn the_file_has_all_types_of_scalars() {
    let lines = section("typed-json", "scalars");
    let types: std::collections::BTreeSet<_> = lines.iter().map(|line| KryoValue::java_type(&line.scalar())).collect();
    assert_eq!(types.len(), 10);
}

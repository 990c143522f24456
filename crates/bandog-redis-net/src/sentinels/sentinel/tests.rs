use super::*;

fn bulk(text: &str) -> Value {
    Value::BulkString(text.into())
}

#[test]
fn fields_are_read_from_maps_and_from_lists() {
    let map = Value::Map(vec![(bulk("ip"), bulk("10.0.0.1")), (bulk("port"), bulk("26379"))]);
    let flat = Value::Array(["ip", "10.0.0.1", "port", "26379"].map(bulk).into());
    for facts in [map, flat] {
        assert_eq!(field(&facts, "port").as_deref(), Some("26379"));
        assert_eq!(field(&facts, "10.0.0.1"), None, "a value is not a name");
        let host = pair(field(&facts, "ip").as_ref(), field(&facts, "port").as_ref()).unwrap();
        assert_eq!(host.to_string(), "10.0.0.1:26379");
    }
    assert_eq!(field(&Value::Nil, "ip"), None);
}

//! JSON in which a key that is there twice is an error: which of both was meant nobody knows. It must not know what keys mean.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A value whose objects have each key once.
pub(crate) struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if values.contains_key(&key) {
                return Err(de::Error::custom(format!("key '{key}' is there twice; give it once")));
            }
            values.insert(key, value);
        }
        Ok(values.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_there_once_and_all_else_is_as_it_is() {
        for text in [
            r#"{"a":[1,-2,3.5,"b",null,true,{"c":{},"d":[]}],"e":18446744073709551615}"#,
            "[]",
            "7",
            r#""\u00e4""#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_str::<Strict>(text).unwrap().0, expected, "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"a":3}}]"#] {
            let error = serde_json::from_str::<Strict>(text).map(|strict| strict.0).unwrap_err();
            assert!(error.to_string().contains("key 'a' is there twice"), "{error}");
        }
        assert!(serde_json::from_str::<Strict>("{").is_err());
    }
}

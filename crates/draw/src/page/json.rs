//! Data as JSON that may stand inside an HTML page. It must not know what the data are.

use std::collections::HashMap;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

/// Writes numbers with six digits, which is more than a picture shows, as short as can be, and no markup.
struct Compact;

impl Formatter for Compact {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let scientific = format!("{value:.5e}");
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let plain = format!("{}", scientific.parse::<f64>().unwrap_or(value));
        let digits = mantissa.replace('.', "");
        let digits = digits.trim_end_matches('0');
        let decimals = digits.trim_start_matches('-').len().saturating_sub(1) as i32;
        let shift = exponent.parse().unwrap_or(0) - decimals;
        // 54722300000 is 547223e5. Zero has no digits left, but its plain form is shorter then.
        let short = format!("{digits}e{shift}");
        let is_shorter = short.len() < plain.len();
        writer.write_all(if is_shorter { short.as_bytes() } else { plain.as_bytes() })
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // `</script` or `<!--` in a name would end the element that holds the data.
        writer.write_all(
            fragment.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").as_bytes(),
        )
    }
}

/// Takes states out of the data: those that occur several times, as bars, markers and cells, are written once.
///
/// An object `{"sliders": …, "states": …}` becomes the index of its equal in the pool.
pub(super) fn pool_states(value: &mut Value, pool: &mut Vec<Value>, known: &mut HashMap<String, usize>) {
    match value {
        Value::Object(fields) if fields.contains_key("sliders") && fields.contains_key("states") => {
            let index = *known.entry(value.to_string()).or_insert(pool.len());
            if index == pool.len() {
                pool.push(value.take());
            }
            *value = Value::from(index);
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| pool_states(field, pool, known)),
        Value::Array(items) => items.iter_mut().for_each(|item| pool_states(item, pool, known)),
        _ => {}
    }
}

/// The data as JSON without `<`, `>` and `&`.
///
/// # Errors
/// None for data made of lists, structures with named fields, strings and finite numbers.
pub(super) fn to_json(data: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut bytes = Vec::new();
    data.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Compact))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::states::States;

    #[test]
    fn equal_states_are_written_once() {
        let [a, b] = [1.0, 2.0].map(|value| States::by(0, vec![value]));
        let mut value = serde_json::to_value([("x", &a), ("y", &b), ("z", &a)]).unwrap();
        let mut pool = Vec::new();
        pool_states(&mut value, &mut pool, &mut HashMap::new());
        assert_eq!(to_json(&value).unwrap(), r#"[["x",0],["y",1],["z",0]]"#);
        assert_eq!(to_json(&pool).unwrap(), r#"[{"sliders":[0],"states":[1]},{"sliders":[0],"states":[2]}]"#);
    }

    #[test]
    fn numbers_are_short() {
        let text =
            to_json(&[0.1 + 0.2, 8589934593.0, -2.0, 1.0 / 3.0, 1e-9, 0.0, -1.5e12, 123456.0, -0.0]).unwrap();
        assert_eq!(text, "[0.3,858993e4,-2,0.333333,1e-9,0,-15e11,123456,-0]");
    }

    proptest! {
        #[test]
        fn numbers_come_back_to_six_digits(value in prop_oneof![-1e30..1e30, -1.0..1.0, -1e6..1e6, Just(0.0)]) {
            let value: f64 = value;
            let back: f64 = serde_json::from_str(&to_json(&value).unwrap()).unwrap();
            prop_assert!((back - value).abs() <= 5.1e-6 * value.abs(), "{value} became {back}");
        }

        #[test]
        fn any_text_comes_back_and_shows_no_markup(text in "\\PC*|(<|/|script|>|&|\"|\\\\|!|-){0,12}") {
            let json = to_json(&text).unwrap();
            prop_assert!(!json.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
    }
}

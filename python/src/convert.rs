//! Columns of any Arrow type that fits, as the plain buffers that requests are kept in. What has their width already is shared
//! and not copied. It must not know what the columns are for.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{DataType, TimeUnit};

/// A value that cannot be: its row in the array, and what is wrong with it.
pub type Bad = (usize, String);

/// The row of the first null, if there is one.
fn no_nulls(array: &dyn Array, what: &str) -> Result<(), Bad> {
    match array.logical_nulls() {
        Some(nulls) if nulls.null_count() > 0 => {
            let row = nulls.iter().position(|valid| !valid).unwrap_or(0);
            Err((row, format!("{what} is null; drop or fill such rows")))
        }
        _ => Ok(()),
    }
}

fn wrong_type(array: &dyn Array, what: &str, wanted: &str) -> Bad {
    (0, format!("{what} is of type {}, and {wanted} is needed; cast it", array.data_type()))
}

/// Whole numbers from 0 on, times `unit`; where the unit is 0, a timestamp's type tells it.
pub fn numbers(array: &dyn Array, unit: u64, what: &str) -> Result<ScalarBuffer<u64>, Bad> {
    no_nulls(array, what)?;
    let wanted = if unit == 0 { "a timestamp" } else { "a type of whole numbers such as uint64 or int64" };
    let unit_of = |time: &TimeUnit| match time {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    match (array.data_type(), unit) {
        (DataType::Timestamp(time, _), _) => {
            let values = match time {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values().clone(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values().clone(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values().clone(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values().clone(),
            };
            signed(values, unit_of(time), what)
        }
        (_, 0) => Err(wrong_type(array, what, wanted)),
        (DataType::UInt64, 1) => Ok(array.as_primitive::<UInt64Type>().values().clone()),
        (DataType::UInt64, _) => each::<UInt64Type>(array, unit, what),
        (DataType::Int64, _) => signed(array.as_primitive::<Int64Type>().values().clone(), unit, what),
        (DataType::UInt32, _) => each::<UInt32Type>(array, unit, what),
        (DataType::Int32, _) => each::<Int32Type>(array, unit, what),
        (DataType::UInt16, _) => each::<UInt16Type>(array, unit, what),
        (DataType::Int16, _) => each::<Int16Type>(array, unit, what),
        (DataType::UInt8, _) => each::<UInt8Type>(array, unit, what),
        (DataType::Int8, _) => each::<Int8Type>(array, unit, what),
        _ => Err(wrong_type(array, what, wanted)),
    }
}

/// The same buffer seen as unsigned, where nothing has to be multiplied.
fn signed(values: ScalarBuffer<i64>, unit: u64, what: &str) -> Result<ScalarBuffer<u64>, Bad> {
    if values.iter().any(|&value| value < 0) {
        let row = values.iter().position(|&value| value < 0).unwrap_or(0);
        return Err((row, negative(values[row].into(), what)));
    }
    if unit == 1 {
        return Ok(ScalarBuffer::from(values.into_inner()));
    }
    let scaled = values
        .iter()
        .enumerate()
        .map(|(row, &value)| scale(value as u64, unit).ok_or_else(|| too_large(row, what)));
    scaled.collect()
}

fn each<T>(array: &dyn Array, unit: u64, what: &str) -> Result<ScalarBuffer<u64>, Bad>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128> + Copy,
{
    let values = array.as_primitive::<T>().values().iter().enumerate();
    values
        .map(|(row, &value)| {
            let value: i128 = value.into();
            let whole = u64::try_from(value).map_err(|_| (row, negative(value, what)))?;
            scale(whole, unit).ok_or_else(|| too_large(row, what))
        })
        .collect()
}

fn negative(value: i128, what: &str) -> String {
    format!("{what} is {value}, and it has to be from 0 on; shift or drop such rows")
}

fn too_large(row: usize, what: &str) -> Bad {
    (row, format!("{what} does not fit 64 bits in nanoseconds or bytes; drop such rows"))
}

fn scale(value: u64, unit: u64) -> Option<u64> {
    value.checked_mul(unit)
}

/// Whole numbers below 2^32, times `unit`.
pub fn short_numbers(array: &dyn Array, unit: u64, what: &str) -> Result<ScalarBuffer<u32>, Bad> {
    if let (DataType::UInt32, 1) = (array.data_type(), unit) {
        no_nulls(array, what)?;
        return Ok(array.as_primitive::<UInt32Type>().values().clone());
    }
    let long = numbers(array, unit, what)?;
    let short = long.iter().enumerate().map(|(row, &value)| {
        u32::try_from(value)
            .map_err(|_| (row, format!("{what} is {value}, and requests are below 4 GiB; cut it in parts")))
    });
    short.collect()
}

/// A code for each row's text, or whole number as text; `code` is asked once for each run of the same text.
pub fn codes<T: Copy>(
    array: &dyn Array,
    what: &str,
    code: &mut dyn FnMut(&str) -> Result<T, String>,
) -> Result<Vec<T>, Bad> {
    no_nulls(array, what)?;
    match array.data_type() {
        DataType::Dictionary(..) => {
            if array.is_empty() {
                return Ok(Vec::new());
            }
            let dictionary = array.as_any_dictionary();
            let keys = dictionary.normalized_keys();
            // Only what is used has to be something.
            let mut known: Vec<Option<T>> = vec![None; dictionary.values().len()];
            let mut used = Vec::with_capacity(keys.len());
            for (row, &key) in keys.iter().enumerate() {
                let value = match known[key] {
                    Some(value) => value,
                    None => {
                        let one = dictionary.values().slice(key, 1);
                        let value = codes(&*one, what, code).map_err(|(_, message)| (row, message))?[0];
                        known[key] = Some(value);
                        value
                    }
                };
                used.push(value);
            }
            Ok(used)
        }
        DataType::Utf8 => of_texts(array.as_string::<i32>().iter(), code),
        DataType::LargeUtf8 => of_texts(array.as_string::<i64>().iter(), code),
        DataType::Utf8View => of_texts(array.as_string_view().iter(), code),
        data_type if data_type.is_integer() => {
            let numbers = numbers(array, 1, what)?;
            let mut last = None;
            let coded = numbers.iter().enumerate().map(|(row, &number)| match last {
                Some((known, value)) if known == number => Ok(value),
                _ => {
                    let value = code(&number.to_string()).map_err(|message| (row, message))?;
                    last = Some((number, value));
                    Ok(value)
                }
            });
            coded.collect()
        }
        _ => Err(wrong_type(array, what, "text, a dictionary of text or a whole number")),
    }
}

fn of_texts<'a, T: Copy>(
    texts: impl Iterator<Item = Option<&'a str>>,
    code: &mut dyn FnMut(&str) -> Result<T, String>,
) -> Result<Vec<T>, Bad> {
    let mut last: Option<(&str, T)> = None;
    let coded = texts.enumerate().map(|(row, text)| {
        let text = text.unwrap_or_default();
        match last {
            Some((known, value)) if known == text => Ok(value),
            _ => {
                let value = code(text).map_err(|message| (row, message))?;
                last = Some((text, value));
                Ok(value)
            }
        }
    });
    coded.collect()
}

/// True, false or null.
pub fn flags(array: &dyn Array, what: &str) -> Result<Vec<Option<bool>>, Bad> {
    match array.data_type() {
        DataType::Boolean => Ok(array.as_boolean().iter().collect()),
        DataType::Null => Ok(vec![None; array.len()]),
        _ => Err(wrong_type(array, what, "true or false")),
    }
}

/// Whole numbers or null.
pub fn maybe_numbers(array: &dyn Array, what: &str) -> Result<Vec<Option<u32>>, Bad> {
    match array.data_type() {
        DataType::UInt32 => Ok(array.as_primitive::<UInt32Type>().iter().collect()),
        DataType::Int64 => {
            let each = array.as_primitive::<Int64Type>().iter().enumerate();
            each.map(|(row, value)| match value.map(u32::try_from) {
                None => Ok(None),
                Some(Ok(value)) => Ok(Some(value)),
                Some(Err(_)) => Err((row, format!("{what} is not from 0 to 268435454"))),
            })
            .collect()
        }
        DataType::Null => Ok(vec![None; array.len()]),
        _ => Err(wrong_type(array, what, "uint32 or int64")),
    }
}

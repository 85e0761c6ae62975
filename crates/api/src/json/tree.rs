//! A body as a tree, read the way protobuf's JSON mapping reads it.
//!
//! Three things that a plain JSON parser leaves open are decided here: a field that is `null` is
//! not set, a field given twice is an error, and an integer may be written like `1.0` or `1e3`.

//!
//! A tree takes more memory than the text it was made of, up to a hundred times as much (`{"":0}`
//! is a map), so its memory is bounded in addition to the length of the text.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// All integers up to here are exact in a double; above it, a number with a fraction is not an
/// integer.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// What one tree may cost: the memory of its values without that of their texts, in units of about
/// 40 bytes. A transaction of 10,000 puts costs a third of it.
const COST_MAX: usize = 1 << 20;
const VALUE_COST: usize = 1;
/// The first field of a map has room made for eleven.
const MAP_COST: usize = 16;

/// Reads one value.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Tree { left: &Cell::new(COST_MAX) }.deserialize(deserializer)
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    /// What is left of [`COST_MAX`].
    left: &'a Cell<usize>,
}

impl Tree<'_> {
    fn spend<E: Error>(self, cost: usize) -> Result<(), E> {
        let left = self.left.get().checked_sub(cost).ok_or_else(|| E::custom("too many values"))?;
        self.left.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.spend(VALUE_COST)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
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
        if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
            #[allow(clippy::cast_possible_truncation)]
            return Ok((value as i64).into());
        }
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            if fields.is_empty() {
                self.spend(MAP_COST)?;
            }
            let field = entries.next_value_seed(self)?;
            if field.is_null() {
                continue;
            }
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
            fields.insert(name, field);
        }
        Ok(Value::Object(fields))
    }
}

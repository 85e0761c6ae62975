//! A body as a tree, read the way protobuf's JSON mapping reads it.
//!
//! Three things a plain JSON parser leaves open are settled here, where all of them can be seen at once: a field
//! that is `null` is not set, a field given twice is an error, and an integer may be written like `1.0` or `1e3`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// All integers up to here are exact in a double; beyond it, who wrote a fraction did not mean an integer.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) struct Tree(pub(super) Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
            #[allow(clippy::cast_possible_truncation)]
            return Ok(Tree((value as i64).into()));
        }
        Ok(Tree(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut array = Vec::new();
        while let Some(Tree(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Tree(Value::Array(array)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut fields = Map::new();
        while let Some((name, Tree(field))) = entries.next_entry::<String, Tree>()? {
            if field.is_null() {
                continue;
            }
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field {name:?}")));
            }
            fields.insert(name, field);
        }
        Ok(Tree(Value::Object(fields)))
    }
}

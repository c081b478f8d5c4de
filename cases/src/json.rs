//! Documents with something changed.

use serde_json::{Map, Value};

use crate::draw::Draw;

/// Changes a value, or one inside it.
pub fn change_somewhere(draw: &mut Draw, value: &mut Value, words: &[&str]) {
    let count = children(value) as u64;
    if count == 0 || draw.once_in(6) {
        return change(draw, value, words);
    }
    let at = draw.below(count) as usize;
    let inside = match value {
        Value::Array(list) => list.get_mut(at),
        Value::Object(fields) => fields.values_mut().nth(at),
        _ => None,
    };
    if let Some(inside) = inside {
        change_somewhere(draw, inside, words);
    }
}

fn children(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}

/// Changes a value.
fn change(draw: &mut Draw, value: &mut Value, words: &[&str]) {
    let count = children(value) as u64;
    match value {
        Value::Number(number) if !draw.once_in(4) => {
            let old = number.as_u64().unwrap_or(0);
            let new = match draw.below(8) {
                0 => old.wrapping_add(1),
                1 => old.wrapping_sub(1),
                2 => old.wrapping_mul(2),
                3 => old / 2,
                4 => draw.below(0x100),
                5 => draw.below(0x1_0000),
                6 => 1 << draw.below(64),
                _ => draw.number(),
            };
            *value = new.into();
        }
        Value::String(_) if !draw.once_in(4) => *value = draw.pick(words).into(),
        Value::Bool(flag) if !draw.once_in(4) => *flag = !*flag,
        Value::Array(list) if count > 0 && !draw.once_in(4) => {
            let at = draw.below(count) as usize;
            match draw.below(4) {
                0 => drop(list.remove(at)),
                1 => list.push(list[at].clone()),
                2 => list.swap(0, at),
                _ => list.clear(),
            }
        }
        Value::Object(fields) if count > 0 && !draw.once_in(4) => change_field(draw, fields, words),
        _ => *value = any_value(draw, words),
    }
}

/// Takes a field away, gives it another name, or adds one.
fn change_field(draw: &mut Draw, fields: &mut Map<String, Value>, words: &[&str]) {
    let at = draw.below(fields.len() as u64) as usize;
    let Some((name, value)) = fields.iter().nth(at).map(|(name, value)| (name.clone(), value.clone())) else {
        return;
    };
    match draw.below(3) {
        0 => drop(fields.remove(&name)),
        1 => drop(fields.insert(draw.pick(words).into(), value)),
        _ => drop(fields.insert(draw.pick(words).into(), any_value(draw, words))),
    }
}

/// A small value of any type.
pub fn any_value(draw: &mut Draw, words: &[&str]) -> Value {
    match draw.below(8) {
        0 => Value::Null,
        1 => true.into(),
        2 => draw.number().into(),
        3 => (draw.below(0x100) as i64 - 128).into(),
        4 => (draw.below(0x100) as f64 / 8.0).into(),
        5 => draw.pick(words).into(),
        6 => Value::Array((0..draw.below(4)).map(|_| draw.below(50).into()).collect()),
        _ => Value::Object([(draw.pick(words).to_owned(), draw.below(50).into())].into_iter().collect()),
    }
}

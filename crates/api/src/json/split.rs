//! Finds the ends of the values in a streamed body.
//!
//! A body may come in parts as small as a byte. Parsing everything again for each part would cost
//! the server the square of what it costs a client. So this examines each byte once, whatever the
//! parts are, and says where a value is complete; only then it is parsed. It knows JSON's grammar,
//! so malformed input is refused at the first byte at which that is certain. The parser refuses the
//! rest, such as half of a surrogate pair.

/// Nesting depth; as much as the parser allows.
const DEPTH_MAX: usize = 127;

/// The input cannot become a value any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no JSON value")]
pub(super) struct Malformed;

/// Finds the ends of values in a growing buffer.
#[derive(Debug)]
pub(super) struct Splitter {
    /// Bytes of the value at the front of the buffer that were examined.
    scanned: usize,
    open: Vec<Container>,
    expects: Expects,
    token: Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// What may come next, between two tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expects {
    Value,
    /// Just behind `[`.
    ValueOrEnd,
    /// Behind a comma in an object.
    Name,
    /// Just behind `{`.
    NameOrEnd,
    Colon,
    CommaOrEnd,
}

/// A token that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    Text {
        is_name: bool,
        escape: Escape,
    },
    /// What is left of `true`, `false` or `null`.
    Word(&'static [u8]),
    Number(Number),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    /// Behind a backslash.
    Begun,
    /// Digits left of `\uXXXX`.
    Digits(u8),
}

/// The state within a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter { scanned: 0, open: Vec::new(), expects: Expects::Value, token: Token::None }
    }
}

impl Splitter {
    /// The length of the value at the front of `buffer`, with what space is before it; None if it
    /// is not complete. Between two calls `buffer` may grow at its end; a value that was found has
    /// to be taken off its front.
    pub(super) fn find_end(&mut self, buffer: &[u8]) -> Result<Option<usize>, Malformed> {
        while let Some(&byte) = buffer.get(self.scanned) {
            self.scanned += 1;
            if self.step(byte)? {
                return Ok(Some(std::mem::take(&mut self.scanned)));
            }
        }
        Ok(None)
    }

    /// Nothing but space has come since the last value.
    pub(super) fn is_between_values(&self) -> bool {
        self.open.is_empty() && self.token == Token::None
    }

    /// The buffer was emptied between two values.
    pub(super) fn restart(&mut self) {
        self.scanned = 0;
    }

    /// True: the value ends with this byte.
    fn step(&mut self, byte: u8) -> Result<bool, Malformed> {
        match self.token {
            Token::None => self.between(byte),
            Token::Text { is_name, escape } => self.text(byte, is_name, escape),
            Token::Word(left) => match left.split_first() {
                Some((&first, rest)) if first == byte => {
                    self.token = Token::Word(rest);
                    Ok(rest.is_empty() && self.end_value())
                }
                _ => Err(Malformed),
            },
            Token::Number(number) => match number.step(byte) {
                Some(next) => {
                    self.token = Token::Number(next);
                    Ok(false)
                }
                // The byte behind a number does not belong to it.
                None if number.may_end() => {
                    self.end_value();
                    self.between(byte)
                }
                None => Err(Malformed),
            },
        }
    }

    fn between(&mut self, byte: u8) -> Result<bool, Malformed> {
        if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return Ok(false);
        }
        match (self.expects, byte) {
            (Expects::ValueOrEnd | Expects::CommaOrEnd, b']') => self.close(Container::Array),
            (Expects::NameOrEnd | Expects::CommaOrEnd, b'}') => self.close(Container::Object),
            (Expects::Value | Expects::ValueOrEnd, _) => self.begin_value(byte).map(|()| false),
            (Expects::Name | Expects::NameOrEnd, b'"') => {
                self.token = Token::Text { is_name: true, escape: Escape::None };
                Ok(false)
            }
            (Expects::Colon, b':') => {
                self.expects = Expects::Value;
                Ok(false)
            }
            (Expects::CommaOrEnd, b',') => {
                self.expects = match self.open.last() {
                    Some(Container::Object) => Expects::Name,
                    Some(Container::Array) | None => Expects::Value,
                };
                Ok(false)
            }
            _ => Err(Malformed),
        }
    }

    fn begin_value(&mut self, byte: u8) -> Result<(), Malformed> {
        self.token = match byte {
            b'{' => return self.begin_container(Container::Object, Expects::NameOrEnd),
            b'[' => return self.begin_container(Container::Array, Expects::ValueOrEnd),
            b'"' => Token::Text { is_name: false, escape: Escape::None },
            b't' => Token::Word(b"rue"),
            b'f' => Token::Word(b"alse"),
            b'n' => Token::Word(b"ull"),
            // One that stands alone has no end, and no message is a number.
            _ if self.open.is_empty() => return Err(Malformed),
            b'-' => Token::Number(Number::Minus),
            b'0' => Token::Number(Number::Zero),
            b'1'..=b'9' => Token::Number(Number::Digits),
            _ => return Err(Malformed),
        };
        Ok(())
    }

    fn begin_container(&mut self, container: Container, expects: Expects) -> Result<(), Malformed> {
        if self.open.len() == DEPTH_MAX {
            return Err(Malformed);
        }
        self.open.push(container);
        self.expects = expects;
        Ok(())
    }

    fn close(&mut self, container: Container) -> Result<bool, Malformed> {
        match self.open.pop() {
            Some(open) if open == container => Ok(self.end_value()),
            _ => Err(Malformed),
        }
    }

    /// True: it was the outermost one.
    fn end_value(&mut self) -> bool {
        self.token = Token::None;
        let is_outermost = self.open.is_empty();
        self.expects = if is_outermost { Expects::Value } else { Expects::CommaOrEnd };
        is_outermost
    }

    fn text(&mut self, byte: u8, is_name: bool, escape: Escape) -> Result<bool, Malformed> {
        let escape = match (escape, byte) {
            (Escape::None, b'"') if is_name => {
                self.token = Token::None;
                self.expects = Expects::Colon;
                return Ok(false);
            }
            (Escape::None, b'"') => return Ok(self.end_value()),
            (Escape::None, b'\\') => Escape::Begun,
            (Escape::None, 0..0x20) => return Err(Malformed),
            (Escape::None, _) => Escape::None,
            (Escape::Begun, b'u') => Escape::Digits(4),
            (Escape::Begun, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
            (Escape::Digits(1), digit) if digit.is_ascii_hexdigit() => Escape::None,
            (Escape::Digits(left), digit) if digit.is_ascii_hexdigit() => Escape::Digits(left - 1),
            (Escape::Begun | Escape::Digits(_), _) => return Err(Malformed),
        };
        self.token = Token::Text { is_name, escape };
        Ok(false)
    }
}

impl Number {
    fn step(self, byte: u8) -> Option<Number> {
        Some(match (self, byte) {
            (Number::Minus, b'0') => Number::Zero,
            (Number::Minus, b'1'..=b'9') | (Number::Digits, b'0'..=b'9') => Number::Digits,
            (Number::Zero | Number::Digits, b'.') => Number::Point,
            (Number::Point | Number::Fraction, b'0'..=b'9') => Number::Fraction,
            (Number::Zero | Number::Digits | Number::Fraction, b'e' | b'E') => Number::Exponent,
            (Number::Exponent, b'+' | b'-') => Number::ExponentSign,
            (Number::Exponent | Number::ExponentSign | Number::ExponentDigits, b'0'..=b'9') => {
                Number::ExponentDigits
            }
            _ => return None,
        })
    }

    fn may_end(self) -> bool {
        matches!(self, Number::Zero | Number::Digits | Number::Fraction | Number::ExponentDigits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each end in `text`, whatever parts of at most `part` bytes it comes in; then what is left of
    /// it.
    fn ends(text: &[u8], part: usize) -> (Vec<usize>, Result<(), Malformed>) {
        let (mut splitter, mut buffer, mut found) = (Splitter::default(), Vec::new(), Vec::new());
        for part in text.chunks(part) {
            buffer.extend_from_slice(part);
            loop {
                match splitter.find_end(&buffer) {
                    Ok(Some(end)) => {
                        found.push(end);
                        buffer.drain(..end);
                    }
                    Ok(None) => break,
                    Err(malformed) => return (found, Err(malformed)),
                }
            }
        }
        (found, Ok(()))
    }

    #[test]
    fn values_end_where_they_end_in_whatever_parts_they_come() {
        let text = br#" {"a":[1,-2.5e+3,"}\"\\\u00e4]",true,null,{}],"b":{"c":0}} {}[] "x" null"#;
        for part in [1, 2, 3, 7, text.len()] {
            let (found, outcome) = ends(text, part);
            assert_eq!((found, outcome), (vec![58, 3, 2, 4, 5], Ok(())), "{part}");
        }
    }

    #[test]
    fn what_cannot_become_a_value_is_refused_at_once() {
        let wrong: [&[u8]; 24] = [
            b"x",
            b"}",
            b"]",
            b",",
            b"1",
            b"-",
            b"{,",
            b"{1",
            b"{\"a\",",
            b"{\"a\":}",
            b"{\"a\":1,}",
            b"[1,]",
            b"[1}",
            b"{\"a\":1]",
            b"[01",
            b"[1.x",
            b"[1e]",
            b"[-]",
            b"[tru ",
            b"[\"\\x",
            b"[\"\\u00g",
            b"[\"\n",
            b"[+",
            b"nul ",
        ];
        for text in wrong {
            assert_eq!(ends(text, 1).1, Err(Malformed), "{}", String::from_utf8_lossy(text));
            assert_eq!(ends(&text[..text.len() - 1], 1).1, Ok(()), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn nesting_is_bounded_as_the_parser_bounds_it() {
        let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
        for depth in [1, DEPTH_MAX, DEPTH_MAX + 1] {
            let parsed = serde_json::from_slice::<serde_json::Value>(&nested(depth)).is_ok();
            assert_eq!(ends(&nested(depth), 5).1.is_ok(), parsed, "{depth}");
        }
    }

    /// The scan continues where the last call ended, so its cost is that of the new bytes.
    #[test]
    fn each_byte_is_looked_at_once() {
        let text = format!("{{\"a\":\"{}\"}}", "x".repeat(3000));
        let (mut splitter, mut buffer, mut looked_at) = (Splitter::default(), Vec::new(), 0);
        for &byte in text.as_bytes() {
            buffer.push(byte);
            let before = splitter.scanned;
            let end = splitter.find_end(&buffer).unwrap();
            looked_at += end.unwrap_or(splitter.scanned) - before;
        }
        assert_eq!(looked_at, text.len());
    }

    #[test]
    fn it_agrees_with_the_parser_on_everything_short() {
        // Without escapes, whose digits the parser checks only together.
        let alphabet = br#"{}[]":,0-1.entru "#;
        let mut state = 7_u64;
        let mut next = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap_or(0) % n
        };
        for _ in 0..200_000 {
            let mut text = vec![[b'[', b'{'][next(2)]];
            text.extend((0..next(9)).map(|_| alphabet[next(alphabet.len())]));
            let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<serde_json::Value>();
            let (parsed, offset) = (values.next(), values.byte_offset());
            let found = Splitter::default().find_end(&text);
            let shown = String::from_utf8_lossy(&text);
            match parsed {
                Some(Ok(_)) => assert_eq!(found, Ok(Some(offset)), "{shown}"),
                Some(Err(error)) if error.is_eof() => assert_eq!(found, Ok(None), "{shown}"),
                _ => assert_eq!(found, Err(Malformed), "{shown}"),
            }
        }
    }
}

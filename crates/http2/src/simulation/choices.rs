//! Decisions, each a byte or two of a string. When the string is used up, everything is the first
//! choice.

#[derive(Debug)]
pub struct Choices {
    bytes: std::collections::VecDeque<u8>,
}

impl Choices {
    pub fn new(bytes: &[u8]) -> Choices {
        Choices { bytes: bytes.iter().copied().collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes.pop_front().unwrap_or(0)
    }

    /// A number below `end`, which is at most 65,536.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(self.byte());
        let number = if end > 256 { number << 8 | usize::from(self.byte()) } else { number };
        number % end.max(1)
    }

    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

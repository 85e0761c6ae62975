//! Reading Huffman-coded text, four bits at a time.
//!
//! The code is a binary tree with 256 inner nodes. Four bits lead from one inner node to another
//! and past one leaf at most, because the shortest code has five bits; where they lead is worked
//! out once.

use std::sync::LazyLock;

use super::Broken;
use super::codes::CODES;

/// Where four bits lead.
#[derive(Debug, Clone, Copy)]
struct Step {
    to: u8,
    symbol: u8,
    /// A whole symbol was passed.
    emits: bool,
    /// The end mark was passed, which may not be sent.
    fails: bool,
}

struct Machine {
    steps: Vec<[Step; 16]>,
    /// Text may end at these nodes: what came since the last symbol is at most seven bits, all
    /// ones.
    may_end: Vec<bool>,
}

static MACHINE: LazyLock<Machine> = LazyLock::new(Machine::build);

const NODES: usize = 256;
const ROOT: usize = 0;
const END_MARK: usize = 256;

#[derive(Clone, Copy)]
enum Child {
    None,
    Node(usize),
    Leaf(usize),
}

impl Machine {
    fn build() -> Machine {
        let tree = tree();
        let step = |node: usize, nibble: usize| {
            let mut step = Step { to: 0, symbol: 0, emits: false, fails: false };
            let mut at = node;
            for bit in [8, 4, 2, 1] {
                at = match tree[at][usize::from(nibble & bit != 0)] {
                    Child::Node(next) => next,
                    Child::Leaf(END_MARK) | Child::None => {
                        step.fails = true;
                        ROOT
                    }
                    Child::Leaf(symbol) => {
                        step.symbol = symbol as u8;
                        step.emits = true;
                        ROOT
                    }
                };
            }
            step.to = at as u8;
            step
        };
        let steps = (0..NODES).map(|node| std::array::from_fn(|nibble| step(node, nibble))).collect();
        let mut may_end = vec![false; NODES];
        let mut at = ROOT;
        for _ in 0..8 {
            may_end[at] = true;
            if let Child::Node(next) = tree[at][1] {
                at = next;
            }
        }
        Machine { steps, may_end }
    }
}

fn tree() -> Vec<[Child; 2]> {
    let mut tree = vec![[Child::None; 2]];
    for (symbol, &(code, bits)) in CODES.iter().enumerate() {
        let mut at = ROOT;
        for bit in (1..bits).rev() {
            let side = (code >> bit & 1) as usize;
            at = match tree[at][side] {
                Child::Node(next) => next,
                _ => {
                    tree.push([Child::None; 2]);
                    let next = tree.len() - 1;
                    tree[at][side] = Child::Node(next);
                    next
                }
            };
        }
        tree[at][(code & 1) as usize] = Child::Leaf(symbol);
    }
    assert_eq!(tree.len(), NODES, "the code of RFC 7541 is complete");
    tree
}

/// Appends the text that `coded` stands for.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    let machine = &*MACHINE;
    // The shortest code has five bits.
    out.reserve(coded.len() * 8 / 5 + 1);
    let mut at = ROOT;
    for &byte in coded {
        for nibble in [byte >> 4, byte & 15] {
            let step = machine.steps[at][usize::from(nibble)];
            if step.fails {
                return Err(Broken);
            }
            if step.emits {
                out.push(step.symbol);
            }
            at = usize::from(step.to);
        }
    }
    if machine.may_end[at] { Ok(()) } else { Err(Broken) }
}

/// For tests: a server has no need to write it.
#[cfg(test)]
pub(super) fn encode(text: &[u8]) -> Vec<u8> {
    let (mut out, mut pending, mut bits) = (Vec::new(), 0u64, 0u32);
    for &byte in text {
        let (code, length) = CODES[usize::from(byte)];
        pending = pending << length | u64::from(code);
        bits += u32::from(length);
        while bits >= 8 {
            bits -= 8;
            out.push((pending >> bits) as u8);
        }
    }
    if bits > 0 {
        out.push((pending << (8 - bits)) as u8 | (0xff >> bits) as u8);
    }
    out
}

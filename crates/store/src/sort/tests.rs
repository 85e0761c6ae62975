use super::*;

/// Of `testdata/go-sort.txt`, which a program that calls Go's `sort.Sort` printed.
fn key(shape: &str, n: u64, i: u64, distinct: u64) -> u64 {
    match shape {
        "random" => scatter(n * 1_000_003 + i) % distinct,
        "rising" => i * distinct / n,
        "falling" => (n - 1 - i) * distinct / n,
        "nearly" if i % 37 == 36 => 0,
        "nearly" => i * distinct / n,
        "saw" => i % distinct,
        "organ" => (if i < n / 2 { i } else { n - i }) * distinct / n,
        other => panic!("no shape {other}"),
    }
}

/// The finaliser of splitmix64.
fn scatter(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn equal_elements_come_in_the_order_of_go() {
    let expected = include_str!("../../testdata/go-sort.txt");
    assert_eq!(expected.lines().count(), 1008);
    for line in expected.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [shape, n, distinct, order, hash] = words[..] else { panic!("five words: {line}") };
        let (n, distinct) = (n.parse().unwrap(), distinct.parse().unwrap());
        let mut items: Vec<(u64, u64)> = (0..n).map(|i| (key(shape, n, i, distinct), i)).collect();
        match order {
            "ascend" => sort(&mut items, |a, b| a.0 < b.0),
            _ => sort(&mut items, |a, b| b.0 < a.0),
        }
        let mut text = String::new();
        for (_, index) in &items {
            text += &format!("{index},");
        }
        assert_eq!(format!("{:08x}", crc32c::crc32c(text.as_bytes())), hash, "{line}");
    }
}

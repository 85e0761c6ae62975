//! The examples of RFC 7541, appendix C, and what attackers make of the format.

use http::HeaderMap;

use super::{Decoder, Encoder, Field, Name, huffman, integer};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn shown(field: &Field) -> String {
    let name = match &field.name {
        Name::Method => ":method",
        Name::Scheme => ":scheme",
        Name::Authority => ":authority",
        Name::Path => ":path",
        Name::Status => ":status",
        Name::Header(name) => name.as_str(),
        Name::Malformed => "malformed",
    };
    format!("{name}: {}", field.value.to_str().unwrap())
}

fn decoded(decoder: &mut Decoder, hex: &str) -> Vec<String> {
    let mut fields = Vec::new();
    decoder.decode(&bytes(hex), |field| fields.push(shown(field))).unwrap();
    fields
}

fn table(decoder: &Decoder) -> (usize, Vec<String>) {
    let (size, fields) = decoder.table();
    (size, fields.iter().map(shown).collect())
}

#[test]
fn integers_are_those_of_the_examples() {
    for (value, prefix, hex) in
        [(10, 5, "0a"), (1337, 5, "1f9a0a"), (42, 8, "2a"), (0, 7, "00"), (127, 7, "7f00")]
    {
        let mut written = Vec::new();
        integer::write(&mut written, 0, prefix, value);
        assert_eq!(written, bytes(hex));
        assert_eq!(integer::read(&mut &*written, prefix), Ok(value));
    }
}

#[test]
fn integers_that_are_cut_off_or_without_end_are_refused() {
    for hex in ["", "1f", "1f9a", "1fffffffffff", "1f8080808080808001"] {
        assert!(integer::read(&mut &*bytes(hex), 5).is_err(), "{hex}");
    }
}

#[test]
fn literals_are_those_of_the_examples() {
    let mut decoder = Decoder::default();
    let custom = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    assert_eq!(decoded(&mut decoder, custom), ["custom-key: custom-header"]);
    assert_eq!(table(&decoder), (55, vec!["custom-key: custom-header".to_string()]));
    let mut decoder = Decoder::default();
    assert_eq!(decoded(&mut decoder, "040c 2f73 616d 706c 652f 7061 7468"), [":path: /sample/path"]);
    assert_eq!(decoded(&mut decoder, "1008 7061 7373 776f 7264 0673 6563 7265 74"), ["password: secret"]);
    assert_eq!(decoded(&mut decoder, "82"), [":method: GET"]);
    assert_eq!(table(&decoder), (0, vec![]));
}

/// C.3 and C.4: the same three requests, plain and Huffman-coded.
#[test]
fn requests_are_those_of_the_examples() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let coded = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(decoded(&mut decoder, blocks[0]), first);
        assert_eq!(table(&decoder).0, 57);
        assert_eq!(decoded(&mut decoder, blocks[1]).last().unwrap(), "cache-control: no-cache");
        assert_eq!(table(&decoder).0, 110);
        let third = decoded(&mut decoder, blocks[2]);
        assert_eq!(third[1..3], [":scheme: https", ":path: /index.html"]);
        assert_eq!(
            table(&decoder),
            (
                164,
                ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"]
                    .map(str::to_string)
                    .to_vec()
            )
        );
    }
}

/// C.5 and C.6: responses, which push each other out of a table of 256 bytes. `:status` is
/// malformed in a request.
#[test]
fn evictions_are_those_of_the_examples() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d
         546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f
         6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b
         2076 6572 7369 6f6e 3d31",
    ];
    let coded = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7
         8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335
         dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        decoder.set_limit(256);
        decoded(&mut decoder, blocks[0]);
        assert_eq!(table(&decoder).0, 222);
        decoded(&mut decoder, blocks[1]);
        assert_eq!(table(&decoder).0, 222);
        let last = decoded(&mut decoder, blocks[2]);
        assert_eq!(last[2], "date: Mon, 21 Oct 2013 20:13:22 GMT");
        assert_eq!(last[5], "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
        assert_eq!(table(&decoder).0, 215);
    }
}

#[test]
fn every_byte_survives_the_huffman_code() {
    let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    let mut back = Vec::new();
    huffman::decode(&huffman::encode(&all), &mut back).unwrap();
    assert_eq!(back, all);
}

#[test]
fn huffman_padding_is_short_and_all_ones() {
    let mut out = Vec::new();
    // '0' is 00000, then padding: right, with a zero in it, and a whole byte too long; last, the
    // end mark itself.
    for (hex, good) in [("07", true), ("06", false), ("07ff", false), ("ffffffff", false)] {
        assert_eq!(huffman::decode(&bytes(hex), &mut out).is_ok(), good, "{hex}");
    }
}

#[test]
fn blocks_that_break_the_rules_are_refused() {
    let broken = [
        ("80", "index 0"),
        ("be", "an index that was never set"),
        ("7f", "a literal cut off"),
        ("0085", "text cut off"),
        ("823f e1ff 03", "a resize behind a field"),
        ("3fe2 1f", "a table larger than was offered"),
    ];
    for (hex, what) in broken {
        assert!(Decoder::default().decode(&bytes(hex), |_| {}).is_err(), "{what}");
    }
}

#[test]
fn invalid_fields_are_remembered_as_such_and_keep_their_size() {
    let mut decoder = Decoder::default();
    // "Ab: c", then a value with a line feed in it.
    assert_eq!(decoded(&mut decoder, "4002 4162 0163"), ["malformed: "].map(|_| "malformed: c"));
    assert_eq!(decoded(&mut decoder, "4001 6101 0a"), ["malformed: "]);
    assert_eq!(table(&decoder).0, 35 + 34);
    assert_eq!(decoded(&mut decoder, "bebf"), ["malformed: ", "malformed: c"]);
}

/// What a client with a table would understand.
struct Client(Decoder);

impl Client {
    /// `:status` is unknown to a decoder of requests, which is one here all the same.
    fn reads(&mut self, block: &[u8]) -> Vec<String> {
        let mut fields = Vec::new();
        self.0.decode(block, |field| fields.push(shown(field))).unwrap();
        fields
    }
}

#[test]
fn answers_are_a_few_bytes_after_the_first() {
    let (mut encoder, mut client) = (Encoder::default(), Client(Decoder::default()));
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let (mut head, mut end) = (Vec::new(), Vec::new());
        encoder.grpc_head(&mut head);
        encoder.grpc_ok(&mut end);
        assert_eq!(client.reads(&head)[1], "content-type: application/grpc");
        assert_eq!(client.reads(&end), ["grpc-status: 0"]);
        lengths.push((head.len(), end.len()));
    }
    assert_eq!(lengths, [(19, 15), (2, 1), (2, 1)]);
}

#[test]
fn a_client_without_a_table_gets_its_size_and_literal_fields() {
    for size in [0, 100] {
        let (mut encoder, mut client) = (Encoder::default(), Client(Decoder::default()));
        let mut before = Vec::new();
        encoder.grpc_head(&mut before);
        client.reads(&before);
        encoder.set_table_size(size);
        encoder.set_table_size(4096);
        for _ in 0..2 {
            let (mut head, mut end) = (Vec::new(), Vec::new());
            encoder.grpc_head(&mut head);
            encoder.grpc_ok(&mut end);
            assert_eq!(client.reads(&head)[1], "content-type: application/grpc");
            assert_eq!(client.reads(&end), ["grpc-status: 0"]);
        }
        assert!(client.0.table().0 <= size, "at {size}");
    }
}

#[test]
fn any_head_can_be_read_back() {
    let (mut encoder, mut client) = (Encoder::default(), Client(Decoder::default()));
    let mut fields = HeaderMap::new();
    fields.insert("grpc-message", "etcdserver: no space".parse().unwrap());
    fields.append("x", "a".repeat(300).parse().unwrap());
    fields.append("x", "b".parse().unwrap());
    let mut block = Vec::new();
    encoder.head(http::StatusCode::NOT_FOUND, &fields, &mut block);
    let read = client.reads(&block);
    assert_eq!(read[1], "grpc-message: etcdserver: no space");
    assert_eq!(read[2].len(), 303);
    assert_eq!(read[3], "x: b");
}

package jsonuri

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// repairs is what models write, what it is read as, and the kinds of repair that are counted.
var repairs = []struct {
	name, text, want string
	kinds            string
}{
	// RP-01
	{"RP-01 prose before", "Here is the JSON:\n{\"a\": 1}", `{"a":1}`, "prose"},
	{"RP-01 prose in the line", `Sure! {"a": 1}`, `{"a":1}`, "prose"},
	{"RP-01 fence", "```json\n{\"a\": 1}\n```\n", `{"a":1}`, "fence prose"},
	{"RP-01 fence and text around", "Of course.\n\n```json\n{\"a\": 1}\n```\nHope this helps {x}!", `{"a":1}`, "fence prose"},
	{"RP-01 fence in the line", "```json {\"a\": 1} ```", `{"a":1}`, "fence prose"},
	{"RP-01 fence with another language", "```javascript\n[1]\n```", `[1]`, "fence prose"},
	{"RP-01 text after", "{\"a\": 1}\nThat is all.", `{"a":1}`, "trailing_text"},
	{"RP-01 thinking", "<think>I use {\"a\": 2} here\n{\"b\": 3}</think>\n{\"a\": 1}", `{"a":1}`, "prose think"},
	{"RP-01 thinking that ends only", "let me see</think>{\"a\": 1}", `{"a":1}`, "prose think"},
	{"RP-01 thinking that never ends", "<think>\nhm\n\n{\"a\": 1}", `{"a":1}`, "think"},
	{"RP-01 reference", "as said in [1]\n{\"a\": 1}", `{"a":1}`, "prose"},
	{"RP-01 references", "as said in [1, 2] and [3]:\n{\"a\": 1}", `{"a":1}`, "prose"},
	{"RP-01 curly braces", "use {curly} braces\n{\"a\": 1}", `{"a":1}`, "prose"},
	{"RP-01 reference first in its line", "[1] Smith\n{\"a\": 1}", `{"a":1}`, "prose"},
	{"RP-01 remark and link", "[sic] see [this](http://x) and [ ] that\n[\"a\"]", `["a"]`, "prose"},
	{"RP-01 template name", "Dear {{name}},\n[true]", `[true]`, "prose"},
	{"RP-01 word before", `json{"a": 1}`, `{"a":1}`, "prose"},
	{"RP-01 assignment", `const x = {a: 1};`, `{"a":1}`, "prose trailing_text unquoted_key"},
	{"RP-01 callback", `callback({"a": 1});`, `{"a":1}`, "prose trailing_text"},
	{"RP-01 list in the line", "The answer is [1, 2, 3]\n", `[1,2,3]`, "prose"},
	{"RP-01 quoted prose", `"Sure", he said: {"a":1}`, `{"a":1}`, "prose"},
	{"RP-01 number before", "1. Here:\n{\"a\":1}", `{"a":1}`, "prose"},
	{"RP-01 note behind", "{\"a\": 1} note: b", `{"a":1}`, "trailing_text"},
	{"RP-01 second document", "{\"a\": 1}\n{\"a\": 2}\n", `{"a":1}`, "trailing_text"},

	// RP-02
	{"RP-02 unquoted", `{a: 1, b_c: "x", $d: 2}`, `{"a":1,"b_c":"x","$d":2}`, "unquoted_key"},
	{"RP-02 unquoted with spaces", `{first name: "x"}`, `{"first name":"x"}`, "unquoted_key"},
	{"RP-02 unquoted beyond ASCII", `{名前: 1}`, `{"名前":1}`, "unquoted_key"},
	{"RP-02 single quotes", `{'a': 1, 'b"c': 2}`, `{"a":1,"b\"c":2}`, "quotes"},
	{"RP-02 typographic quotes", `{“a”: 1, ‘b’: 2, 「c」: 3}`, `{"a":1,"b":2,"c":3}`, "quotes"},
	{"RP-02 quote too many before", `{""name": 1}`, `{"name":1}`, "extra_quote"},
	{"RP-02 quote too many before a space", `{"" name": 1}`, `{" name":1}`, "extra_quote"},
	{"RP-02 quote too many behind", `{"name"": 1}`, `{"name":1}`, "extra_quote"},
	{"RP-02 empty key", `{"": 1, "" : 2}`, `{"":2}`, ""},
	{"RP-02 junk behind", `{"name" (string): 1}`, `{"name":1}`, "text_after_key"},
	{"RP-02 closing quote missing", `{"age : 10, "b": 1}`, `{"age":10,"b":1}`, "missing_quote"},
	{"RP-02 closing quote missing before a string", `{"age : "10", "b": 1}`, `{"age":"10","b":1}`, "missing_quote"},
	{"RP-02 opening quote missing", `{age" : 10}`, `{"age":10}`, "missing_quote"},
	{"RP-13 line break inside", "{\"na\nme\": 1}", `{"name":1}`, "control_character"},
	{"RP-02 missing", `{: 10}`, `{"":10}`, "missing_key"},
	{"RP-02 colon missing", `{"a" 1, "b" "x", "c" {"d" [2]}}`, `{"a":1,"b":"x","c":{"d":[2]}}`, "missing_colon"},
	{"RP-02 quotes inside", `{"the "best" one": 1}`, `{"the \"best\" one":1}`, "unescaped_quote"},
	{"RP-02 quotes inside at the end", `{"the "best"": 1}`, `{"the \"best\"":1}`, "unescaped_quote"},
	{"RP-02 colon inside", `{"a:b": 1, "c: d, e": 2}`, `{"a:b":1,"c: d, e":2}`, ""},
	{"RP-02 arrow", `{"a" => 1, b = 2}`, `{"a":1,"b":2}`, "colon unquoted_key"},
	{"RP-02 double colon", `{"a":: 1}`, `{"a":1}`, "colon"},

	// RP-03
	{"RP-03 single quotes", `{"a": 'it''s', 'b': 'x "y"'}`, `{"a":"it''s","b":"x \"y\""}`, "quotes unescaped_quote"},
	{"RP-03 apostrophe", `{'a': 'it's fine', 'b': 'x'}`, `{"a":"it's fine","b":"x"}`, "quotes unescaped_quote"},
	{"RP-03 typographic", `{"a": “x”, "b": “y", "c": «z»}`, `{"a":"x","b":"y","c":"z"}`, "quotes"},
	{"RP-03 backticks", "{\"a\": `x \"y\" z`}", `{"a":"x \"y\" z"}`, "quotes"},
	{"RP-03 raw line breaks", "{\"a\": \"x\ny\tz\r\n\x01\"}", `{"a":"x\ny\tz\r\n\u0001"}`, "control_character"},
	{"RP-03 quotes inside", `{"a": "he said "hi" to me", "b": 1}`, `{"a":"he said \"hi\" to me","b":1}`, "unescaped_quote"},
	{"RP-03 quotes inside and a comma", `{"a": "he said "hi", then left", "b": 1}`, `{"a":"he said \"hi\", then left","b":1}`, "unescaped_quote"},
	{"RP-03 quotes inside at the end", `{"a": "he said "hi"", "b": 1}`, `{"a":"he said \"hi\"","b":1}`, "unescaped_quote"},
	{"RP-03 quotes inside in a list", `["he said "hi", then", "x"]`, `["he said \"hi\", then","x"]`, "unescaped_quote"},
	{"RP-03 several quotations", `{"a": "he said "hi", "yo", and left"}`, `{"a":"he said \"hi\", \"yo\", and left"}`, "unescaped_quote"},
	{"RP-03 quotes around brackets", `{"a": "use "{x}" and "[y]" here"}`, `{"a":"use \"{x}\" and \"[y]\" here"}`, "unescaped_quote"},
	{"RP-03 extra closing quote", `{"a": "x"", "b": 1}`, `{"a":"x","b":1}`, "extra_quote"},
	{"RP-03 opening quote missing", `{"a": bearbobo", "b": 1}`, `{"a":"bearbobo","b":1}`, "missing_quote unquoted_string"},
	{"RP-03 closing quote missing at the end of a line", "{\"a\": \"hello\n\"b\": 1}", `{"a":"hello","b":1}`, "missing_comma missing_quote"},
	{"RP-03 closing quote missing before a comma", "{\"a\": \"hello,\n\"b\": 1}", `{"a":"hello","b":1}`, "missing_quote"},
	{"RP-03 closing quote missing in the line", `{"a": "hello, "b": 1}`, `{"a":"hello","b":1}`, "missing_quote"},
	{"RP-03 closing quote missing before brackets", `{"x": [{"a": "hello}], "b": 1}`, `{"x":[{"a":"hello"}],"b":1}`, "missing_quote"},
	{"RP-03 closing quote missing at the end", `{"a": "hello}`, `{"a":"hello"}`, "missing_quote"},
	{"RP-03 invalid escapes", `{"a": "\x41\'\q \u12 \user"}`, `{"a":"A'\\q \\u12 \\user"}`, "escape"},
	{"RP-03 joined", `{"a": "x" + "y" +` + "\n" + `'z'}`, `{"a":"xyz"}`, "joined_strings"},
	{"RP-03 three quotes", `{"a": """x "y" z""", "b": '''t'''}`, `{"a":"x \"y\" z","b":"t"}`, "extra_quote quotes unescaped_quote"},
	{"RP-03 string in a fence", "{\"a\": ```let x = \"1\"```}", `{"a":"let x = \"1\""}`, "extra_quote quotes"},
	{"RP-03 comma at the end of a string", `{"a":"x, ","b":"}","c":"]\n"}`, `{"a":"x, ","b":"}","c":"]\n"}`, ""},

	// RP-04
	{"RP-04 missing", `{"a": , "b": }`, `{"a":null,"b":null}`, "missing_value"},
	{"RP-04 Python", `[True, False, None, "x"]`, `[true,false,null,"x"]`, "literal"},
	{"RP-04 JavaScript", `{"a": undefined, "b": NaN, "c": -Infinity}`, `{"a":null,"b":null,"c":null}`, "literal"},
	{"RP-04 numbers", `[+1, .5, 5., 1_000, -.5]`, `[1,0.5,5,1000,-0.5]`, "number"},
	{"RP-04 not a number", `{"a": 10a, "b": nul, "c": 1.2.3, "d": 2024-01-02, "e": 10 kg}`, `{"a":"10a","b":"nul","c":"1.2.3","d":"2024-01-02","e":"10 kg"}`, "unquoted_string"},
	{"RP-04 thousands", `{"a": 1,234,567.5, "b": 2}`, `{"a":1234567.5,"b":2}`, "number"},
	{"RP-04 numbers with commas in a list stay", `[1,234]`, `[1,234]`, ""},
	{"RP-04 words", `{"a": hello world, "b": x: y, z, "c": http://a/b}`, `{"a":"hello world","b":"x: y, z","c":"http://a/b"}`, "unquoted_string"},
	{"RP-04 words in a list", `[red, dark blue, null]`, `["red","dark blue",null]`, "unquoted_string"},
	{"RP-04 calls", `{"_id": ObjectId("12ab"), "n": NumberLong(2), "d": ISODate("2024")}`, `{"_id":"12ab","n":2,"d":"2024"}`, "function_call"},
	{"RP-04 tuple", `{"a": (1, "b")}`, `{"a":[1,"b"]}`, "wrong_bracket"},
	{"RP-04 colors", `{"a": #fff, "b": #00ff00}`, `{"a":"#fff","b":"#00ff00"}`, "unquoted_string"},

	// RP-05
	{"RP-05 trailing", `{"a": [1, 2,], "b": {"c": 1,},}`, `{"a":[1,2],"b":{"c":1}}`, "extra_comma"},
	{"RP-05 leading and doubled", `{, "a": [, 1,, 2], , "b": 2}`, `{"a":[1,2],"b":2}`, "extra_comma"},
	{"RP-05 missing", "{\"a\": 1 \"b\": \"x\"\n\"c\": [1 2 \"y\" \"z\" {} {}] \"d\": {} \"e\": true}", `{"a":1,"b":"x","c":[1,2,"y","z",{},{}],"d":{},"e":true}`, "missing_comma"},
	{"RP-05 missing in a list that is all there is", `[1 2, 3]`, `[1,2,3]`, "missing_comma"},
	{"RP-05 missing before a string", `[1 "a"]`, `[1,"a"]`, "missing_comma"},
	{"RP-05 missing in a list of lists", `[[1 2] [3 4]]`, `[[1,2],[3,4]]`, "missing_comma"},
	{"RP-05 missing before an unquoted key", "{a: \"x\"\nb: 1\nc: 2}", `{"a":"x","b":1,"c":2}`, "missing_comma unquoted_key"},
	{"RP-05 semicolons", `{"a": 1; "b": "x"; "c": [1; 2]}`, `{"a":1,"b":"x","c":[1,2]}`, "comma"},
	{"RP-05 comments", "{ // one\n\"a\": /* two */ 1, # three\n\"b\": \"x\" // four\n, \"c\": 2 /* five */}", `{"a":1,"b":"x","c":2}`, "comment"},
	{"RP-05 ellipses", `{"a": [1, 2, ...], "b": ["x", ..., "z"], "c": {"d": 1, ...}, "e": [1, …]}`, `{"a":[1,2],"b":["x","z"],"c":{"d":1},"e":[1]}`, "ellipsis extra_comma"},

	// RP-06
	{"RP-06 missing at the end", `{"a": [1, {"b": "x"`, `{"a":[1,{"b":"x"}]}`, "missing_bracket"},
	{"RP-06 not matching", `{"a":[1,2}`, `{"a":[1,2]}`, "wrong_bracket"},
	{"RP-06 not matching, and more", `{"a":[1,2}, "b": 3}`, `{"a":[1,2],"b":3}`, "wrong_bracket"},
	{"RP-06 object closed as an array", `[{"a":1], {"b":2}]`, `[{"a":1},{"b":2}]`, "wrong_bracket"},
	{"RP-06 array not closed before a key", "{\"a\": [1, \"x\"\n\"b\": 4}", `{"a":[1,"x"],"b":4}`, "missing_bracket missing_comma"},
	{"RP-06 nothing to close", `{"a":1]}`, `{"a":1}`, "wrong_bracket"},
	{"RP-06 one too many", `{"a":1}}`, `{"a":1}`, "extra_bracket"},
	{"RP-06 doubled", `{{"a":1}}`, `{"a":1}`, "extra_bracket"},
	{"RP-06 doubled inside", `{"x": {{"a":1}}, "b": 2}`, `{"x":{"a":1},"b":2}`, "extra_bracket"},

	// RP-07
	{"RP-07 in a string", `{"a": "hel`, `{"a":"hel"}`, "cut_off missing_bracket"},
	{"RP-07 in an escape", `{"a": "x\`, `{"a":"x"}`, "cut_off missing_bracket"},
	{"RP-07 in a long escape", `{"a": "x\u12`, `{"a":"x"}`, "cut_off missing_bracket"},
	{"RP-07 in a pair", `{"a": "x\ud83d\ude`, `{"a":"x"}`, "cut_off missing_bracket"},
	{"RP-07 in a number", `{"a": 12.`, `{"a":12}`, "cut_off missing_bracket"},
	{"RP-07 in an exponent", `[1e`, `[1]`, "cut_off missing_bracket"},
	{"RP-07 behind a sign", `{"a": -`, `{"a":-0}`, "cut_off missing_bracket"},
	{"RP-07 in a literal", `{"a": tru`, `{"a":true}`, "cut_off missing_bracket"},
	{"RP-07 behind a key", `{"a": 1, "b"`, `{"a":1,"b":null}`, "cut_off missing_bracket"},
	{"RP-07 behind a colon", `{"a":`, `{"a":null}`, "cut_off missing_bracket"},
	{"RP-07 in a key", `{"a": 1, "b`, `{"a":1,"b":null}`, "cut_off missing_bracket"},
	{"RP-07 before a key", `{"a": 1, "`, `{"a":1}`, "cut_off missing_bracket"},
	{"RP-07 behind a comma", `[1,`, `[1]`, "missing_bracket"},
	{"RP-07 behind a bracket", `{`, `{}`, "missing_bracket"},
	{"RP-07 with a fence behind", "```json\n{\"a\": [1, 2\n```", `{"a":[1,2]}`, "fence missing_bracket prose"},

	// RP-11: what cannot be placed stays as text where it was found.
	{"RP-11 key without its end at the end", "{\"a\":\"x\",\n \"age : 10\n}", `{"a":"x","age":10}`, "missing_quote"},
	{"RP-11 mixed quotes of a key", `{'name" : "x"}`, `{"name":"x"}`, "quotes"},
	{"RP-11 element without its end", `[{"i":1,{"i":2}]`, `[{"i":1},{"i":2}]`, "missing_bracket"},
	{"RP-11 element without its end or comma", `[{"i":1{"i":2}]`, `[{"i":1},{"i":2}]`, "missing_bracket missing_comma"},
	{"RP-11 cut off in the first key", `{"foo`, `{"foo":null}`, "cut_off missing_bracket"},
	{"RP-11 a number with spaces", `{"a": +1 555 123, "b": 1 "c": 2 d: 3}`, `{"a":"+1 555 123","b":1,"c":2,"d":3}`, "unquoted_string missing_comma unquoted_key"},
	{"RP-12 numbers without commas behind a string", `["a" 2 3 "b"]`, `["a",2,3,"b"]`, "missing_comma"},
	{"RP-11 a comma in a number", `{"a": 105,12, "b": 1,5}`, `{"a":"105,12","b":"1,5"}`, "unquoted_string"},
	{"RP-05 missing before a key without quotes", `{"a": "x" b: "y", "c": "z" d: 1}`, `{"a":"x","b":"y","c":"z","d":1}`, "missing_comma unquoted_key"},
	{"RP-07 cut off behind a word of a key", `{"a b `, `{"a b":null}`, "cut_off missing_bracket"},
	{"RP-11 thousands before another member", `{"n": 522,250, "country": "x"}`, `{"n":522250,"country":"x"}`, "number"},
	{"RP-11 JSON in a string", `{"json": "{"a": 1, "b": [1, 2]}", "x": 1}`, `{"json":"{\"a\": 1, \"b\": [1, 2]}","x":1}`, "unescaped_quote"},
	{"RP-11 code in a string", `{"code": "f({"k": "v", "l": "w"}); g()", "x": 1}`, `{"code":"f({\"k\": \"v\", \"l\": \"w\"}); g()","x":1}`, "unescaped_quote"},
	{"RP-11 comment of the last member, on one line", `{"a": {"b": "c" # note }, "d": 1}`, `{"a":{"b":"c"},"d":1}`, "comment"},
	{"RP-11 brackets at the end of a text that has no end", `{"a": "use [x] and {y}}`, `{"a":"use [x] and {y}"}`, "missing_quote"},

	{"RP-11 a quote too many behind a key without quotes", `{a"": 1, "b": {c"": 2}}`, `{"a":1,"b":{"c":2}}`, "extra_quote"},
	{"RP-11 a key without its end behind a brace too many", "{\"a\": {\"b\": 1}},\n\"c: 2\n}", `{"a":{"b":1},"c":2}`, "extra_bracket missing_quote"},
	{"RP-11 a key without its colon behind a brace too many", `{"a": {"b": 1}}, "c" "d"}`, `{"a":{"b":1},"c":"d"}`, "extra_bracket missing_colon"},
	{"RP-11 two commas behind a bracket too many", `{"a": [1]],, "b": 2}`, `{"a":[1],"b":2}`, "extra_bracket extra_comma"},
	{"RP-11 two commas behind a brace too many in an array", `{"a": [{"b": 1}},, {"c": 2}]}`, `{"a":[{"b":1},{"c":2}]}`, "extra_bracket extra_comma"},
	{"RP-11 a brace too many in an array and no comma", `{"a": [{"b": 1}} {"c": 2}]}`, `{"a":[{"b":1},{"c":2}]}`, "extra_bracket missing_comma"},
	{"RP-11 two members without a key", `{"a": 1, ["b"], ["c"]}`, `{"a":1,"":["b"],"2":["c"]}`, "missing_colon missing_key"},
	{"RP-11 a number behind the last string", `{"a": "b" 1005}`, `{"a":"b","1005":null}`, "missing_comma missing_value unquoted_key"},

	{"RP-11 a key again behind a wrong bracket", `{"a": {"b": [1}, "c": 2}, "c": 3}`, `{"a":{"b":[1]},"c":2,"c_2":3}`, "extra_bracket wrong_bracket"},
	{"RP-11 a key again in an element", `[{"a": 1 "b": 2, "a": 3}]`, `[{"a":1,"b":2},{"a":3}]`, "missing_bracket missing_comma"},
	{"RP-11 a key again in an element without brackets", `["a": 1, "b" 2, "b": 3]`, `[{"a":1,"b":2},{"b":3}]`, "missing_bracket missing_colon"},
	{"RP-11 quotes around nothing before a key", `[{"a": 1, """" "a": 2}]`, `[{"a":1},{"a":2}]`, "extra_quote missing_bracket"},
	{"RP-11 a member behind a list that ended too early", `[[1}, 2], "a": 3]`, `[[1],2,{"a":3}]`, "extra_bracket missing_bracket wrong_bracket"},
	{"RP-11 an address whose key has no colon", `{"a" https://b/c?d, "e": 1}`, `{"a":"https://b/c?d","e":1}`, "missing_colon unquoted_string"},

	// RP-12
	{"RP-12 closing quote missing before brackets", `{"a": {"b": ["c]}, "d": 1}`, `{"a":{"b":["c"]},"d":1}`, "missing_quote"},
	{"RP-12 comma missing", `["a" 2, "b" "c" true {"x": 1} [2] "d""e"]`, `["a",2,"b","c",true,{"x":1},[2],"d","e"]`, "missing_comma"},
	{"RP-12 comma and quotes missing", `["a" b, "c"]`, `["a","b","c"]`, "missing_comma unquoted_string"},
	{"RP-12 comma missing before a line", "[\n \"a\"\n true,\n 1\n \"b\"\n]", `["a",true,1,"b"]`, "missing_comma"},
	{"RP-12 closing quote missing", `["abc, "def", "g"]`, `["abc","def","g"]`, "missing_quote"},
	{"RP-12 closing quote missing, a line each", "[\n \"abc,\n \"def,\n 12\n]", `["abc","def",12]`, "missing_quote"},
	{"RP-12 opening quote missing", `[a","b", c d"]`, `["a","b","c d"]`, "missing_quote unquoted_string"},
	{"RP-12 opening quote missing of a text with a comma", `["a", b c, d e", "f"]`, `["a","b c, d e","f"]`, "missing_quote unquoted_string"},
	{"RP-12 opening quote missing in all there is", `[a blue door"]`, `["a blue door"]`, "missing_quote unquoted_string"},
	{"RP-12 opening quote missing of code with quotes", `{"a": [if x { return "c" }", ""], "b": 1}`, `{"a":["if x { return \"c\" }",""],"b":1}`, "missing_quote unquoted_string"},
	{"RP-12 members without an object", `["k": "v", "l": 2]`, `[{"k":"v","l":2}]`, "missing_bracket"},
	{"RP-12 members behind elements", `{"a": ["x", "k": "v"], "b": 1}`, `{"a":["x",{"k":"v"}],"b":1}`, "missing_bracket"},
	{"RP-12 what is too long for a key", `["` + strings.Repeat("long ", 20) + `": 1]`, `["` + strings.Repeat("long ", 20) + `",1]`, "text_between missing_comma"},

	// RP-13
	{"RP-13 opening quote of a key missing", `{"a": "x", b": "y", "c": 1}`, `{"a":"x","b":"y","c":1}`, "missing_quote"},
	{"RP-13 closing quote of a key missing", `{"a": "x", "b c: {"d": 1}, "e: [1, "y"]}`, `{"a":"x","b c":{"d":1},"e":[1,"y"]}`, "missing_quote"},
	{"RP-13 typographic closing quote", `{"name” : "x"}`, `{"name":"x"}`, "missing_quote"},
	{"RP-13 no junk, but a text without colon and quote", `{"path" C:\\ann", "b": 1}`, `{"path":"C:\\ann","b":1}`, "missing_colon missing_quote unquoted_string"},
	{"RP-13 junk behind a key", `{"name"abc: "x", "b": 1}`, `{"name":"x","b":1}`, "text_after_key"},
	{"RP-13 words between members", `{"a": true, and "b": "x", NOTE "c": "z" end }`, `{"a":true,"b":"x","c":"z"}`, "text_between missing_comma"},
	{"RP-13 brace closed too early", `{"a":1}, "b":2}`, `{"a":1,"b":2}`, "extra_bracket"},
	{"RP-13 brace closed too early inside", `{"x": {"y": {"a":1}}}, "b":2}`, `{"x":{"y":{"a":1}},"b":2}`, "extra_bracket"},
	{"RP-13 bracket closed too early", `[1, 2], "x"]`, `[1,2,"x"]`, "extra_bracket"},
	{"RP-13 a brace where a member should stand", `[{"a": 1, {"b": 2}]`, `[{"a":1},{"b":2}]`, "missing_bracket"},
	{"RP-13 an element where a member should stand", `[{"a": 1, "x", true]`, `[{"a":1},"x",true]`, "missing_bracket"},
	{"RP-13 quotes doubled", `{""a"": ""x"", "b": ''y'', "c": """}`, `{"a":"x","b":"y","c":""}`, "extra_quote quotes"},
	{"RP-13 colon missing between strings", `{"a""x", "b" "C:\\d"}`, `{"a":"x","b":"C:\\d"}`, "missing_colon"},

	// RP-14
	{"RP-14 call", `callback({});`, `{}`, "prose trailing_text"},
	{"RP-14 brackets around a fence", "[```json\n{\"a\":\"b\"}\n```]\n", `{"a":"b"}`, "fence prose"},
	{"RP-14 escaped as a whole", `{\n  \"a\": \"x\",\n  \"b\": [1]\n}`, `{"a":"x","b":[1]}`, "escaped_document"},
	{"RP-14 tuple and one value in brackets", `{"a": ("x", 1), "b": (2), "c": ("y")}`, `{"a":["x",1],"b":2,"c":"y"}`, "wrong_bracket"},

	// RP-15
	{"RP-15 cut off", `{"a": 2e, "b": 2e+, "c": 3., "d": -`, `{"a":2,"b":2,"c":3,"d":-0}`, "cut_off missing_bracket number"},
	{"RP-15 codes", `{"a": 007, "b": 0.0.1, "c": 1-2, "d": 746de9ad-d4ff-4c66-97d7-00a92ad46967, "e": 12345"}`, `{"a":"007","b":"0.0.1","c":"1-2","d":"746de9ad-d4ff-4c66-97d7-00a92ad46967","e":"12345"}`, "unquoted_string missing_quote"},

	// RP-16
	{"RP-16 backtick and acute", "{`a´: `b´}", `{"a":"b"}`, "quotes"},

	// RP-17
	{"RP-17 strings without a quote", "{\"name\" : bearbobo\",\n\"a\" : \"bearbobo,\n\"b\": 10a, \"c\": nul}", `{"name":"bearbobo","a":"bearbobo","b":"10a","c":"nul"}`, "missing_quote unquoted_string"},
	{"RP-17 quotes in a string of two lines", "{\"name\": \"be\"a\nrbo\"bo,\", \"b\": 1}", `{"name":"be\"a\nrbo\"bo,","b":1}`, "unescaped_quote control_character"},

	// Brackets that do not match, and what follows them (RP-06).
	{"RP-06 one too many inside", `{"a": {"b": [1, 2]], "c": 3}, "d": [[4]], 5], "e": {"f": {"g": 1}}}`, `{"a":{"b":[1,2],"c":3},"d":[[4],5],"e":{"f":{"g":1}}}`, "extra_bracket"},
	{"RP-06 brace too many in an array", `{"a": [{"b": 1}}, {"c": 2}], "d": 3}`, `{"a":[{"b":1},{"c":2}],"d":3}`, "extra_bracket"},
	{"RP-06 brace for a bracket", `[{"a": ["x"}, "b": 1}]`, `[{"a":["x"],"b":1}]`, "wrong_bracket"},
	{"RP-06 bracket for a brace", `{"a": [{"b": {"c": 1], "d": 2}], "e": 3}`, `{"a":[{"b":{"c":1},"d":2}],"e":3}`, "wrong_bracket"},
	{"RP-06 bracket for a brace in a list", `{"a": [[1], {"b": 2], true]}`, `{"a":[[1],{"b":2},true]}`, "wrong_bracket"},
	{"RP-06 a member further to the left than the list", "{\n  \"a\": {\n    \"b\": [\n      \"c\"\n    ,\n    \"d\": 1\n  },\n  \"e\": 2\n}", `{"a":{"b":["c"],"d":1},"e":2}`, "missing_bracket"},
	{"RP-06 a member further to the left than two lists", "{\n  \"a\": [\n    {\n      \"b\": [\n        1,\n  \"c\": 2\n}", `{"a":[{"b":[1]}],"c":2}`, "missing_bracket"},
	{"RP-06 a wrong bracket below the line that it ends", "{\n  \"a\": {\n    \"b\": [\n      1\n    },\n    \"c\": 2\n  }\n}", `{"a":{"b":[1],"c":2}}`, "wrong_bracket"},
	{"RP-06 a number alone and a bracket too many", `[3.14]]`, `[3.14]`, "extra_bracket"},
	{"RP-06 nothing else", `[}`, `[]`, "wrong_bracket"},

	{"RP-10 a long gap behind brackets", `[[{"a":{"b":1}}, ""` + strings.Repeat(" ", 300) + `, ""]]`, `[[{"a":{"b":1}},"",""]]`, ""},

	// What a whole answer looks like.
	{"markup inside", `{"html": "<a href="x.html" class="y">z</a>", "b": "c"}`, `{"html":"<a href=\"x.html\" class=\"y\">z</a>","b":"c"}`, "unescaped_quote"},
	{"code inside", `{"code": "a = {"k": "v"}", "x": 1}`, `{"code":"a = {\"k\": \"v\"}","x":1}`, "unescaped_quote"},
	{"paths and formulas", `{"a": "C:\Users\x", "b": "$\alpha$"}`, `{"a":"C:\\Users\\x","b":"$\\alpha$"}`, "escape"},
	{"Python", `{'name': 'Bob', 'says': 'It\'s "ok"', 'n': None, }`, `{"name":"Bob","says":"It's \"ok\"","n":null}`, "escape extra_comma literal quotes"},
	{"dates, prices and units", `{"d": 2024-01-02T10:00:00Z, "p": $10, "q": 5%, "r": 1/2}`, `{"d":"2024-01-02T10:00:00Z","p":"$10","q":"5%","r":"1/2"}`, "unquoted_string"},

	// JS-10 and what else models write
	{"JS-10 invalid UTF-8", "{\"a\xff\": \"b\xe4\xbdc\"}", "{\"a\ufffd\":\"b\ufffd\ufffdc\"}", "invalid_utf8"},
	{"white space of other kinds", "{\u00a0\"a\":\u200b1\u3000}", `{"a":1}`, "white_space"},
	{"full-width signs", `｛“a”：“x”，“b”：［1，2］｝`, `{"a":"x","b":[1,2]}`, "comma colon quotes"},
	{"escaped document", `{\"a\": \"x\\n\\\"y\\\"\",\n \"b\": [1]}`, `{"a":"x\n\"y\"","b":[1]}`, "escaped_document"},
	{"escaped document in quotes", `"{\"a\": 1} x`, `{"a":1}`, "escaped_document prose trailing_text"},
}

func TestRepairMendsWhatModelsWrite(t *testing.T) {
	for _, tt := range repairs {
		t.Run(tt.name, func(t *testing.T) {
			got := parseAllWays(t, Options{Repair: true}, tt.text)
			if got.Err != "" {
				t.Errorf("RP-09: %s", got.Err)
			}
			if want := decode(t, tt.want); !reflect.DeepEqual(want, decode(t, got.Final)) {
				t.Errorf("%s is read as\n     %s\nwant %s\nrepairs %v", tt.text, got.Final, tt.want, got.Repairs)
			}
			kinds := map[string]bool{}
			for k := range got.Repairs {
				kinds[k] = true
			}
			want := map[string]bool{}
			for _, k := range strings.Fields(tt.kinds) {
				want[k] = true
			}
			if diff := cmp.Diff(want, kinds); diff != "" {
				t.Errorf("RP-08: kinds of repair of %s (-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

// checkMended holds what is true of every text in repair mode.
func checkMended(t testing.TB, text string) reading {
	t.Helper()
	got := parseAllWays(t, Options{Repair: true}, text)
	switch {
	case got.Err == ErrNoDocument.Error():
		if got.Final != "{}" {
			t.Errorf("RP-09: %q has no document, but gave %s", text, got.Final)
		}
	case got.Err != "":
		if !strings.Contains(got.Err, "limit") {
			t.Errorf("%q: %s", text, got.Err)
		}
	case !json.Valid([]byte(got.Final)):
		t.Errorf("%q gave %s", text, got.Final)
	case got.Events[len(got.Events)-1] != "finish":
		t.Errorf("%q ended with %s", text, got.Events[len(got.Events)-1])
	}
	return got
}

func TestEveryTextCutOffAnywhereIsFinished(t *testing.T) {
	for _, tt := range repairs {
		for i := range len(tt.text) {
			checkMended(t, tt.text[:i])
			if t.Failed() {
				t.Fatalf("RP-07: %s: %q", tt.name, tt.text[:i])
			}
		}
	}
}

func TestTextWithoutADocumentIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "  \n", "I cannot do that.", "as said in [1]", "use {curly} braces", "<think>hm</think>", "```\nhello\n```",
		"\"Sure\" he said", "42 is the answer", "true story", "-", "nul", "see [this](x)",
	} {
		t.Run("RP-09 "+text, func(t *testing.T) {
			got := parseAllWays(t, Options{Repair: true}, text)
			if got.Err != ErrNoDocument.Error() || got.Complete {
				t.Errorf("error %q, complete %v, read as %s", got.Err, got.Complete, got.Final)
			}
		})
	}
}

// DH-13: the line that begins the fence of the document is no thought.
func TestAFenceAloneIsNoProse(t *testing.T) {
	for _, text := range []string{"```json\n{\"a\":1}\n```", "\n``` {\"a\":1}", "```\n\n{\"a\":1}"} {
		if got := parseAllWays(t, Options{Repair: true}, text); got.Final != `{"a":1}` || got.Reserved != "{}" && got.Reserved != "" {
			t.Errorf("%q is read as %s, with %s beside it", text, got.Final, got.Reserved)
		}
	}
}

func TestProseGoesToTheReasoningURI(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"prose", "Here it is:\n\n{\"a\":1}", "Here it is:"},
		{"fence", "Here \"it\" is:\n```json\n{\"a\":1}\n```\nbye", "Here \"it\" is:"},
		{"DH-13 what follows a fence line", "```\nhello\n```\n{\"a\":1}", "```\nhello"},
		{"thinking", "<think>\nI \\ think [1] {x}\n</think>\nSo:\n{\"a\":1}", "I \\ think [1] {x}\n\nSo:"},
		{"invalid UTF-8", "é\xff海\n{\"a\":1}", "é\ufffd海"},
	}
	for _, tt := range tests {
		t.Run("RP-01 "+tt.name, func(t *testing.T) {
			got := parseAllWays(t, Options{Repair: true, Root: "r"}, tt.text)
			var reserved map[string]string
			if err := json.Unmarshal([]byte(got.Reserved), &reserved); err != nil {
				t.Fatalf("%v: %s", err, got.Reserved)
			}
			if diff := cmp.Diff(map[string]string{"r/$reasoning_context": tt.want}, reserved); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Final != `{"r":{"a":1}}` {
				t.Errorf("document %s", got.Final)
			}
		})
	}
}

func TestStringIsResolvedBeforeTheDocumentEnds(t *testing.T) {
	for _, text := range []string{"{\"a\":\"x\",\n\"b", `{"a":"x","b":`, `["x", "`, `[["x"],`} {
		resolved := false
		p := NewParser(Handler{String: func([]byte, string) { resolved = true }}, &Options{Repair: true})
		p.WriteString(text)
		if !resolved {
			t.Errorf("after %s the string is still not resolved", text)
		}
	}
}

func TestRepairSaysWhetherTheDocumentWasComplete(t *testing.T) {
	for text, want := range map[string]bool{`{"a":1}`: true, `{"a":1} bye`: true, `{'a':1,}`: true, `{"a":1`: false, `{"a":"x`: false, `12`: true, "```\n[1\n```": false} {
		if got := parse(t, Options{Repair: true}, text); got.Complete != want || got.Err != "" {
			t.Errorf("%s: complete %v, error %s", text, got.Complete, got.Err)
		}
	}
}

func TestRepairKeepsTheLimits(t *testing.T) {
	o := Options{Repair: true, MaxDepth: 3, MaxBytes: 60, MaxKey: 5, MaxNumber: 4}
	for limit, text := range map[string]string{
		"depth":    "[[[[1",
		"document": `{"a": "` + strings.Repeat("x", 60),
		"key":      `{"123456":1}`,
		"number":   `[12345]`,
	} {
		got := parseAllWays(t, o, text)
		if !strings.Contains(got.Err, "the "+limit+" exceeds its limit") {
			t.Errorf("JS-08 %s: got %q", limit, got.Err)
		}
	}
	p := NewParser(Handler{}, &o)
	if _, err := p.WriteString("{}" + strings.Repeat(" bye", 100)); err != nil || p.Close() != nil || !p.MayStop() {
		t.Errorf("what stands behind the document counts: %v", err)
	}
	p = NewParser(Handler{}, &o)
	p.WriteString(`{"123456`)
	if _, err := errors.AsType[*LimitError](p.Close()); !err {
		t.Errorf("no limit error from Close")
	}
}

// genMess draws text of what JSON is made of, in any order.
func genMess() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{
				"{", "}", "[", "]", ",", ":", `"`, `"`, "'", "“", "”", "\n", " ", "\\", `\"`, `\u00`, `\ud83d`, `\ude00`, "//", "/*", "*/", "#", "```", "<think>", "</think>",
				"true", "nul", "None", "1", "-", ".", "e", "007", "1,234", "...", "+", "(", ")", ";", "=>", "=", "a", "b c", "key", `"k":`, `"x",`, `{"a":`, "海", "\xff", "\xe4\xbd", "\u00a0", "：", "ObjectId(", "\t", "{\\\"a",
			}),
			rapid.StringN(0, 4, 8),
		), 0, 24).Draw(t, "parts")
		return strings.Join(parts, "")
	})
}

func TestEveryTextIsReadTheSameHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		checkMended(t, genMess().Draw(rt, "text"))
		if t.Failed() {
			rt.FailNow()
		}
	})
}

func TestDamagedDocumentsAreReadTheSameHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := genJSON(rt)
		for range rapid.IntRange(1, 3).Draw(rt, "damages") {
			at := rapid.IntRange(0, len(text)).Draw(rt, "at")
			switch rapid.IntRange(0, 2).Draw(rt, "kind") {
			case 0:
				text = text[:at]
			case 1:
				text = text[:at] + text[min(len(text), at+1):]
			default:
				text = text[:at] + rapid.SampledFrom([]string{`"`, ",", "}", "]", ":", "\n", "'", "\\", "x", "海", "/", " "}).Draw(rt, "more") + text[at:]
			}
		}
		checkMended(t, text)
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// RP-11: a document whose keys and strings are words keeps each of them, whichever sign of its structure is missing or doubled.
func TestOneSignMissingOrDoubledLosesNoWord(test *testing.T) {
	rapid.Check(test, func(t *rapid.T) {
		words := 0
		word := func() string { words++; return fmt.Sprintf("w%dx", words) }
		var value func(depth int) string
		value = func(depth int) string {
			line := rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "space")
			var parts []string
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case depth == 0 || kind == 0 && depth < 3:
				for range rapid.IntRange(1, 3).Draw(t, "members") {
					parts = append(parts, line+`"`+word()+`": `+value(depth+1))
				}
				return "{" + strings.Join(parts, ",") + line + "}"
			case kind == 1 && depth < 3:
				for range rapid.IntRange(1, 3).Draw(t, "elements") {
					parts = append(parts, line+value(depth+1))
				}
				return "[" + strings.Join(parts, ",") + line + "]"
			default:
				return `"` + word() + " " + word() + `"`
			}
		}
		text := value(0)
		var signs []int
		for i := range text {
			if i > 0 && strings.IndexByte(`"{}[],:`, text[i]) >= 0 {
				signs = append(signs, i)
			}
		}
		at := rapid.SampledFrom(signs).Draw(t, "sign")
		damaged := text[:at] + text[at+1:]
		if rapid.Bool().Draw(t, "doubled") {
			damaged = text[:at] + text[at:at+1] + text[at:]
		}
		got := parse(test, Options{Repair: true}, damaged)
		for i := range words {
			if word := fmt.Sprintf("w%dx", i+1); !strings.Contains(got.Final, word) {
				t.Fatalf("%s is lost of %s\nread as %s\n%v", word, damaged, got.Final, got.Repairs)
			}
		}
	})
}

// JS-04: a quadratic reading of one of these texts takes so long that the deadline of the tests ends it. bench/parse has the times.
func TestRepairTakesLinearTimeForEveryText(t *testing.T) {
	units := map[string]string{
		"quotes": `"`, "quote and comma": `",`, "quote, comma, quote": `"," `, "brackets": "{", "arrays": "[", "backticks": "`", "fences": "```", "backslashes": `\`,
		"prose with brackets": "see [1] and {x} ", "spaces": " ", "commas": ",", "colons": ":", "words": "abc ", "tags": "<thin", "digits": "1", "lines": "\n", "wide": "“", "open string": `a, `, "slash": "/", "dots": ".", "calls": "f(", "plus": "+",
	}
	for _, unit := range units {
		for _, start := range []string{"", `{"a": "`, `["x`, `{"`, `[`, `{"a": x`} {
			text := start + strings.Repeat(unit, (1<<18)/len(unit))
			p := NewParser(Handler{Delta: func(Delta) {}}, &Options{Repair: true, MaxBytes: 1 << 30, MaxKey: 1 << 30, MaxNumber: 1 << 12})
			for i := 0; i < len(text); i += 7 {
				if _, err := p.WriteString(text[i:min(i+7, len(text))]); err != nil {
					break
				}
			}
			p.Close()
		}
	}
}

func FuzzStrict(f *testing.F) {
	for _, text := range []string{`{"a":[1,-2.5e3,true,null,"x\n\ud83d\ude00"],"a":{}}`, `"\ud800"`, "\ufeff[]", `[1e400]`, `{"":""}`, "[\"\xff\"]", `[01]`} {
		f.Add(text, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 2000 {
			return
		}
		whole := parse(t, Options{}, text)
		plain := strings.TrimPrefix(text, "\ufeff")
		valid := json.Valid([]byte(plain)) && validUTF8(plain)
		if (whole.Err == "") != valid {
			t.Fatalf("JS-06: %q: valid is %v, error %q", text, valid, whole.Err)
		}
		pieces := randomPieces(rand.New(rand.NewPCG(seed, 0)), text, 5)
		if diff := cmp.Diff(whole, parse(t, Options{}, pieces...)); diff != "" {
			t.Fatalf("JS-03: %q as %q (-whole +cut):\n%s", text, pieces, diff)
		}
		if !valid {
			return
		}
		checkFold(t, text, whole)
		checkUnchanged(t, text, whole, parse(t, Options{Repair: true}, pieces...))
	})
}

func FuzzRepair(f *testing.F) {
	for _, tt := range repairs {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 300 {
			return
		}
		got := checkMended(t, text)
		if strict := parse(t, Options{}, text); strict.Err == "" {
			checkUnchanged(t, text, strict, got)
		}
	})
}

func validUTF8(text string) bool { return strings.ToValidUTF8(text, "") == text }

package vectors_test

var folds = []struct {
	name   string
	deltas []string
}{
	{"nothing is an empty object", nil},
	{"strings are appended", []string{`{"uri":"a/b","delta":"He"}`, `{"uri":"a/b","delta":"llo"}`, `{"uri":"a/b","delta":""}`}},
	{"an empty string is a string", []string{`{"uri":"a","delta":""}`}},
	{"a string takes the place of anything else", []string{`{"uri":"a","delta":7}`, `{"uri":"a","delta":"x"}`}},
	{"an empty object keeps an object", []string{`{"uri":"a","delta":{"b":1}}`, `{"uri":"a","delta":{}}`}},
	{"an empty object takes the place of anything else", []string{`{"uri":"a","delta":[1]}`, `{"uri":"a","delta":{}}`, `{"uri":"b","delta":null}`, `{"uri":"b","delta":{}}`}},
	{"an empty array takes the place of everything", []string{`{"uri":"a","delta":[1,2]}`, `{"uri":"a","delta":[]}`}},
	{"other values are set", []string{`{"uri":"a","delta":1.5}`, `{"uri":"b","delta":true}`, `{"uri":"c","delta":false}`, `{"uri":"d","delta":null}`, `{"uri":"e","delta":[1,[2]]}`, `{"uri":"f","delta":{"g":{"h":[]}}}`, `{"uri":"a","delta":2}`}},
	{"objects are made on the way", []string{`{"uri":"a/b/c","delta":1}`, `{"uri":"a/d/0","delta":2}`}},
	{"an object takes the place of a value on the way", []string{`{"uri":"a","delta":"text"}`, `{"uri":"a/b","delta":1}`}},
	{"places of an array are filled", []string{`{"uri":"a","delta":[]}`, `{"uri":"a/3","delta":"x"}`, `{"uri":"a/1/b","delta":true}`}},
	{"an array takes indexes only", []string{`{"uri":"a","delta":[1]}`, `{"uri":"a/x","delta":2}`, `{"uri":"a/01","delta":2}`, `{"uri":"a/-1","delta":2}`, `{"uri":"a/\\e","delta":2}`, `{"uri":"a/length","delta":0}`, `{"uri":"a/1.0","delta":2}`, `{"uri":"a/1e0","delta":2}`, `{"uri":"a/x/y","delta":2}`}},
	{"an index may not be far away", []string{`{"uri":"a","delta":[]}`, `{"uri":"a/65537","delta":1}`, `{"uri":"a/99999999999999999999","delta":1}`, `{"uri":"a/2","delta":1}`}},
	{"a snapshot at the root", []string{`{"uri":"a","delta":1}`, `{"uri":"","delta":{"b":"x","c":[{"d":"y"}]}}`, `{"uri":"c/0/d","delta":"z"}`, `{"uri":"b","delta":"w"}`}},
	{"a snapshot of nothing", []string{`{"uri":"a","delta":1}`, `{"uri":"","delta":null}`, `{"uri":"","delta":{}}`}},
	{"text at the root", []string{`{"uri":"","delta":"Hel"}`, `{"uri":"","delta":"lo"}`}},
	{"an array at the root", []string{`{"uri":"","delta":[]}`, `{"uri":"0","delta":"a"}`, `{"uri":"1/b","delta":1}`}},
	{"a repeated key", []string{`{"uri":"a","delta":"x"}`, `{"uri":"a","delta":null}`, `{"uri":"a","delta":"y"}`}},
	{"escaped keys", []string{`{"uri":"a\\/b","delta":1}`, `{"uri":"\\e/\\e","delta":2}`, `{"uri":"\\$x","delta":3}`, `{"uri":"\\./\\..","delta":4}`, `{"uri":"c\\\\d","delta":5}`, `{"uri":"é/日本/\ud83d\ude00","delta":6}`, `{"uri":"*/**","delta":7}`}},
	{"reserved uris stand beside the document", []string{`{"uri":"a/$reasoning_context","delta":"I "}`, `{"uri":"a/$reasoning_context","delta":"think"}`, `{"uri":"a/b","delta":1}`, `{"uri":"$tools/0","delta":{"id":"c","arguments":{}}}`, `{"uri":"$tools/1","delta":null}`, `{"uri":"a/$tools/0/name","delta":"n"}`}},
	{"hostile names are keys", []string{`{"uri":"__proto__/polluted","delta":"yes"}`, `{"uri":"constructor/prototype/polluted","delta":"yes"}`, `{"uri":"a/__proto__","delta":[]}`, `{"uri":"a/__proto__/0","delta":"x"}`, `{"uri":"toString","delta":"s"}`, `{"uri":"hasOwnProperty/call","delta":1}`, `{"uri":"$__proto__/x","delta":1}`}},
	{"hostile names in values", []string{`{"uri":"a","delta":{"__proto__":{"x":"1"},"constructor":{"prototype":{}}}}`, `{"uri":"a/__proto__/x","delta":"2"}`, `{"uri":"a/constructor/prototype/polluted","delta":"yes"}`, `{"uri":"a/valueOf","delta":"v"}`}},
	{"a hostile name has nothing of its prototype", []string{`{"uri":"a/constructor/name","delta":"x"}`, `{"uri":"b/__proto__/toString","delta":"y"}`, `{"uri":"__proto__","delta":"z"}`}},
	{"what is no uri changes nothing", []string{`{"uri":"a","delta":1}`, `{"uri":"/","delta":2}`, `{"uri":"a/","delta":2}`, `{"uri":"/a","delta":2}`, `{"uri":"a//b","delta":2}`, `{"uri":"b/..","delta":2}`, `{"uri":".","delta":2}`, `{"uri":"b\\x","delta":2}`, `{"uri":"b\\","delta":2}`, `{"uri":"b\\e","delta":2}`, `{"uri":"b\\$","delta":2}`, `{"uri":"b\\.","delta":2}`}},
	{"half characters of escapes stay together", []string{`{"uri":"a","delta":"\u00e9\ud83d\ude00"}`, `{"uri":"a","delta":"\n\t\"\\/"}`}},
	{"numbers of any kind", []string{`{"uri":"a","delta":1.10}`, `{"uri":"b","delta":12345678901234567890}`, `{"uri":"c","delta":-0}`, `{"uri":"d","delta":1e-7}`}},
	{"many writers side by side", []string{`{"uri":"s/0/t","delta":"a"}`, `{"uri":"s/1/t","delta":"b"}`, `{"uri":"s/0/t","delta":"c"}`, `{"uri":"q","delta":{}}`, `{"uri":"s/1/t","delta":"d"}`, `{"uri":"q/x","delta":"e"}`}},
}

var documents = []struct{ name, text, root string }{
	{"an object", `{"a":1,"b":"text","c":[true,false,null],"d":{"e":{}}}`, ""},
	{"an object with a root", `{"a":1,"b":["x",{"y":"z"}]}`, "article"},
	{"a root of several keys", `["a"]`, `b/c\/d/\e`},
	{"an array", `[[],[[1]],{},{"a":[]},""]`, ""},
	{"a string", `"Hello \"world\" \u00e9 \ud83d\ude00"`, ""},
	{"a number", `-12.5e3`, ""},
	{"a literal", `null`, ""},
	{"nothing", `{}`, ""},
	{"a repeated key", `{"a":"x","b":1,"a":{"c":2},"a":[3]}`, ""},
	{"a repeated key with objects", `{"a":{"b":1},"a":{"c":2}}`, ""},
	{"hostile keys", `{"__proto__":{"x":"y"},"constructor":{"prototype":[1]},"":{"":""},"$a":1,".":2,"..":3,"a/b":4,"c\\d":5,"toString":"x","length":0}`, ""},
	{"white space", " {\n\t\"a\" : [ 1 , 2 ]\r\n} ", ""},
	{"text beyond ASCII", `{"日本":"語","é":"\u65e5\uD83D\uDE00😀"}`, ""},
	{"numbers", `[0,-0,1.10,1e3,1E-2,12345678901234567890]`, ""},
}

var lists = [][]string{
	{"a"},
	{"a", "0", "b"},
	{""},
	{"", ""},
	{"$tools"},
	{"a$"},
	{"."},
	{".."},
	{"..."},
	{".a"},
	{"a/b"},
	{"/"},
	{"\\"},
	{"\\e"},
	{"\\/"},
	{"*"},
	{"**"},
	{"__proto__", "constructor"},
	{"日本", "😀"},
	{" ", "\n"},
	{"\\$", "$\\", "$/"},
}

var uris = []string{
	"", "/", "//", "a/", "/a", "a//b", ".", "..", "a/./b", "a/../b", "\\", "a\\", "a\\x", "\\e", "\\ee", "a\\e", "\\e/a", "a/\\e",
	"\\.", "\\..", "\\...", "\\.a", "a\\.", "\\$", "\\$a", "a\\$", "$a", "a/$b/c", "$", "\\\\", "\\/", "\\\\e", "\\e\\e", "$\\e", "$a\\/b",
	"$\\$",
}

var patterns = []string{
	"", "*", "**", "a", "a/b", "a/*", "a/**", "*/b", "**/b", "a/*/c", "a/**/c", "**/**", "*/**", "**/*", "**/b/**", "\\*", "\\**", "a/\\*",
	"a*", "*a", "a/**/b/**/c", "\\e", "\\$x", "$x", "*/$x", "a//b", "/", "a/..", "a\\/b", "\\*a", "***",
}

var matched = []string{
	"", "a", "b", "a/b", "a/b/c", "a/c", "a/x/c", "a/x/y/c", "a/b/x/b/y/c", "a/b/c/b", "x/b", "\\e", "\\$x", "$x", "a/$x", "*", "**", "a/*",
	"a*", "*a", "a\\/b", "b/a", "***", "a/b/b/c/c",
}

package before

import (
	"encoding/json"
	"strings"
	"testing"
)

// A line of the file of keys that is read is a claim that can be kept, and what it says of its run can be read.
func FuzzKeyLine(f *testing.F) {
	const line = "00112233445566778899aabbccddeeff 00112233445566778899aabbccddeeff q6myrp4qkegvdwscbennnkcpyq 1790000000 "
	for _, of := range []string{`"chat"`, `agent "a\nb"`, `by 0f8c "chat"`, `by ann agent "x"`, `by  "x"`, "`x`", `'x'`, `agent agent "x"`} {
		f.Add([]byte(line + of + "\n"))
	}
	f.Add([]byte(line + `"cha`))
	f.Add([]byte(line + `"chat" 29b4121b` + "\n"))
	f.Add([]byte(strings.Replace(line, " 179", " -179", 1) + "\"x\"\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, c, ok := parseKey(line)
		if !ok {
			return
		}
		c.Key = "k"
		var of struct{ Workflow, Agent, Owner string }
		if err := c.Check(); err != nil || json.Unmarshal(c.Of, &of) != nil || of.Workflow != "" && of.Agent != "" {
			t.Errorf("%q was read as %+v, of %+v, %v", line, c, of, err)
		}
	})
}

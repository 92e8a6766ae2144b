package wire

import "testing"

// Members that are missing, or of another type, are read as what they have least.
func TestMembersOfAnotherTypeAreReadAsMissing(t *testing.T) {
	o := ReadObject([]byte(`{"text":"a\u00e9","n":7,"big":1e99,"less":-1,"list":[{"n":1},2,{"n":3}],"in":{"text":"b"},"none":null,"empty":[]}`))
	if o.Text("text") != "aé" || o.Text("n")+o.Text("none")+o.Text("?") != "" {
		t.Errorf("%q %q", o.Text("text"), o.Text("n"))
	}
	if o.Count("n") != 7 || o.Count("big")+o.Count("less")+o.Count("text")+o.Count("none")+o.Count("?") != 0 {
		t.Errorf("%d %d", o.Count("n"), o.Count("big"))
	}
	if list := o.Objects("list"); len(list) != 2 || list[1].Count("n") != 3 || len(o.List("list")) != 3 || o.List("in") != nil || o.List("?") != nil {
		t.Errorf("%v", list)
	}
	if o.Object("in").Text("text") != "b" || o.Object("list") != nil || o.Object("?").Object("?").Text("?") != "" {
		t.Errorf("%v", o.Object("in"))
	}
	for name, want := range map[string]bool{"text": true, "n": true, "in": true, "none": false, "empty": false, "?": false} {
		if o.Has(name) != want {
			t.Errorf("Has(%q) is %v", name, !want)
		}
	}
	if o.Set("text", "<&>"); string(o["text"]) != `"<&>"` {
		t.Errorf("%s", o["text"])
	}
	if ReadObject([]byte(`[]`)) != nil || ReadObject([]byte(`{"a":`)) != nil {
		t.Error("an object that is none")
	}
}

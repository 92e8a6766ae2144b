package agui_test

import (
	"fmt"

	"github.com/lingserve/lingserve/tube"
	"github.com/lingserve/lingserve/web/wire/agui"
)

func ExampleEncoder() {
	e := agui.NewEncoder(agui.Run{Thread: "t-1", ID: "r-1", Of: "ours", State: true})
	stream := e.Open(nil)
	for _, event := range []tube.Event{
		{Kind: tube.Set, URI: []byte("article"), Value: []byte("{}")},
		{Kind: tube.Append, URI: []byte(`article/a\/b`), Value: []byte("The ")},
		{Kind: tube.Append, URI: []byte(`article/a\/b`), Value: []byte("sky")},
		{Kind: tube.Named, Name: "finished", Value: []byte(`{"status":"completed"}`)},
	} {
		stream = e.Append(stream, event)
	}
	fmt.Printf("%s", stream)
	// Output:
	// data: {"type":"RUN_STARTED","threadId":"t-1","runId":"r-1","protocolVersion":"1.0"}
	//
	// data: {"type":"STATE_SNAPSHOT","snapshot":{}}
	//
	// data: {"type":"STATE_DELTA","delta":[{"op":"add","path":"/article","value":{}}]}
	//
	// data: {"type":"STATE_DELTA","delta":[{"op":"add","path":"/article/a~1b","value":"The "}]}
	//
	// data: {"type":"STATE_DELTA","delta":[{"op":"replace","path":"/article/a~1b","value":"The sky"}]}
	//
	// data: {"type":"RUN_FINISHED","threadId":"t-1","runId":"r-1","result":{"article":{"a/b":"The sky"}},"outcome":{"type":"success"}}
}

func ExampleRead() {
	in, _ := agui.Read([]byte(`{"threadId":"t-1","runId":"r-1","messages":[
		{"id":"1","role":"system","content":"Be brief."},{"id":"2","role":"user","content":"Why is the sky blue?"}]}`))
	fmt.Println(in.Text, "/", in.Instructions)

	_, faults := agui.Read([]byte(`{"threadId":7,"runId":"r-1","messages":[]}`))
	fmt.Println(faults[0].Pointer, faults[0].Detail)
	// Output:
	// Why is the sky blue? / Be brief.
	// /threadId expected a string, found a number
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/sashabaranov/go-openai"
)

// byHandPart is the relay that people write in Go: go-openai reads the model's answer, and each piece of text is written as an event. It
// prints its address.
func byHandPart(args []string) error {
	config := openai.DefaultConfig("bench")
	config.BaseURL = "http://" + args[0] + "/v1"
	config.HTTPClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}
	client := openai.NewClientWithConfig(config)
	handler := func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Question string `json:"question"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := relayByHand(w, r, client, body.Question); err != nil {
			log.Print("by hand: ", err)
			panic(http.ErrAbortHandler)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	s := &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 10 * time.Second}
	return s.Serve(ln)
}

func relayByHand(w http.ResponseWriter, r *http.Request, client *openai.Client, question string) error {
	stream, err := client.CreateChatCompletionStream(r.Context(), openai.ChatCompletionRequest{
		Model: "bench-1", Stream: true,
		Messages: []openai.ChatCompletionMessage{{Role: "system", Content: "Answer in JSON."}, {Role: "user", Content: question}},
	})
	if err != nil {
		return err
	}
	defer stream.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			_, err = io.WriteString(w, "data: [DONE]\n\n")
			return err
		}
		if err != nil {
			return err
		}
		if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		data, err := json.Marshal(map[string]string{"delta": chunk.Choices[0].Delta.Content})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return err
		}
		if err := rc.Flush(); err != nil {
			return err
		}
	}
}

package turn

// Prompt is what a model is asked: text or, where Parts are set, parts.
type Prompt struct {
	Text  string
	Parts []Part
}

// Empty says whether there is neither text nor a part. White space is text.
func (p Prompt) Empty() bool { return p.Text == "" && len(p.Parts) == 0 }

// Part is a piece of a prompt in the shape that OpenAI gave it. Type says which member is set.
type Part struct {
	Type       string      `json:"type"` // "text", "image_url", "input_audio", "video_url" or "file"
	Text       string      `json:"text,omitempty"`
	ImageURL   *PartURL    `json:"image_url,omitempty"`
	InputAudio *InputAudio `json:"input_audio,omitempty"`
	VideoURL   *PartURL    `json:"video_url,omitempty"`
	File       *File       `json:"file,omitempty"`
}

// PartURL is an image or a video: an address, or data ("data:image/png;base64,…").
type PartURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// InputAudio is a piece of sound.
type InputAudio struct {
	Data   string `json:"data"`   // base64
	Format string `json:"format"` // "wav", "mp3"
}

// File is a file: its data, or an id that the model's server gave it.
type File struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"` // "data:application/pdf;base64,…"
	ID   string `json:"file_id,omitempty"`
}

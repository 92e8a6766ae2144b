package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
)

// article is something that the script knows.
type article struct {
	title, summary string
	sections       []part
	quiz           []question
}

type part struct{ title, body string }

type question struct {
	asked       string
	choices     []string
	right       int
	explanation string
}

// sky is the article that it knows well.
var sky = article{
	title:   "Why the Sky Is Blue",
	summary: "Sunlight holds all colors. On its way through the air it meets molecules that are much smaller than its waves, and these send blue light off in all directions far more than red. So blue reaches our eyes from every part of the sky, while the other colors mostly go straight on.",
	sections: []part{
		{"White light is a mixture", "Sunlight looks white, or a little yellow, but it is a mixture of all the colors of the rainbow. A glass prism shows this: it bends each color by a different angle and spreads them out side by side. Raindrops do the same on a grand scale.\n\nWhat we call color is the length of a light wave. Red waves are about 700 nanometers long, violet ones about 400. A hair is about a hundred times as thick as either."},
		{"How air scatters light", "The molecules of the air, mostly nitrogen and oxygen, are about a thousand times smaller than a wave of light. When a wave passes, it makes their electrons swing, and each swinging molecule sends a little of the light off in a new direction. This is called Rayleigh scattering, after the physicist who worked it out in 1871.\n\nIt depends strongly on the wavelength: waves half as long are scattered sixteen times as much. Blue light is therefore scattered several times more than red, and it is this scattered light that we see when we look at the sky away from the sun."},
		{"Why the sky is not violet", "Violet waves are even shorter than blue ones and are scattered more still. But the sun sends out less violet than blue, some of it is absorbed high in the atmosphere, and our eyes are less sensitive to it.\n\nThe eye has three kinds of color receptors and reports their mixture. What comes from the sky, a little violet, much blue and some of everything else, stirs them just as a pale pure blue would. So pale blue is what we see."},
		{"Red evenings", "When the sun is low its light comes through the air at a slant, and its way is up to forty times as long as at noon. Nearly all of the blue is scattered out of it before it reaches us. What remains is yellow, orange and red.\n\nDust and fine droplets add to the effect, which is why sunsets are especially colorful after a volcanic eruption. On Mars it is the other way round: its fine dust makes the sky butterscotch by day and blue around the setting sun."},
	},
	quiz: []question{
		{"What is sunlight made of?", []string{"Blue light only", "Yellow and red light", "All the colors of the rainbow", "White waves of one length"}, 2, "A prism spreads sunlight out into all the colors of the rainbow."},
		{"Which light do molecules of air scatter most?", []string{"Light with short waves", "Light with long waves", "Red and orange light", "All light equally"}, 0, "Waves half as long are scattered sixteen times as much."},
		{"Why is the low sun red?", []string{"It is colder in the evening", "The air turns red at night", "The ground reflects red light", "The long way through the air has scattered the blue away"}, 3, "A low sun's light crosses up to forty times as much air, and loses nearly all of its blue on the way."},
	},
}

// aboutTheSky says whether a question is the one that the script knows.
func aboutTheSky(s string) bool {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) })
	return slices.Contains(words, "sky") && slices.Contains(words, "blue")
}

// Titles of the article that it has for every other question.
const (
	titleQuestion = "What the question asks"
	titlePage     = "How this page is written"
	titleReal     = "What a real model would do"
)

// outline plans an article that answers a question.
func outline(asked string) string {
	a := sky
	if !aboutTheSky(asked) {
		a = article{
			title: "A Scripted Article About “" + short(asked, 60) + "”",
			summary: "You asked: " + quoted(asked) + " The demo model has no knowledge of this, so it cannot answer. " +
				"What you see is how an answer grows: this outline first, then the sections, all at the same time, and a quiz when the last of them is done.",
			sections: []part{{title: titleQuestion}, {title: titlePage}, {title: titleReal}},
		}
	} else {
		a.summary = "You asked: " + quoted(asked) + " " + a.summary
	}
	var sections []value
	for _, s := range a.sections {
		sections = append(sections, object("title", str(s.title)))
	}
	return write(object(
		"title", str(a.title),
		"summary", str(a.summary),
		"sections", array(sections...),
		"note", str(notice),
	))
}

// section writes the text below a title.
func section(title, asked string) string {
	for _, s := range sky.sections {
		if s.title == title {
			return s.body
		}
	}
	switch title {
	case titleQuestion:
		return "The question is " + quoted(asked) + " An encyclopedia would begin by saying what its words mean, what is known about the matter, and what is not. " +
			"The script cannot do that: it repeats the question and looks at nothing else.\n\n" +
			"It gives the same answer each time, which makes it a good partner for tests and for a first look at the page."
	case titlePage:
		return "A first bot writes the outline as JSON. The server reads that JSON while it is still being written, and as soon as the title of a section is complete it starts a bot that writes the section. This text is the work of one of them.\n\n" +
			"All bots write into one document. Each piece of it is sent to the page with the path where it belongs, so that sections grow side by side, in whatever order they come."
	case titleReal:
		return "A real model would take the prompts of this workflow, which ask it for an outline, for the text of each section and for a quiz, and answer the question with what it has learned.\n\n" +
			"To see that, set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that is compatible with it, and start the server again. The workflow stays the same."
	}
	return notice + " Here would stand what a real model has to say about “" + oneLine(title) + "”."
}

// quiz asks about an article that stands as JSON in the message.
func quiz(user string) string {
	var read struct {
		Title    string `json:"title"`
		Sections []struct {
			Title string `json:"title"`
		} `json:"sections"`
	}
	if i := strings.IndexByte(user, '{'); i >= 0 {
		// Where it is no JSON, the quiz is about an article without a title.
		_ = json.NewDecoder(strings.NewReader(user[i:])).Decode(&read)
	}
	questions := sky.quiz
	if read.Title != sky.title {
		title := oneLine(read.Title)
		if title == "" {
			title = "Without a title"
		}
		section := titlePage
		if n := len(read.Sections); n > 0 {
			section = oneLine(read.Sections[n-1].Title)
		}
		questions = []question{
			{"What is the title of the article?", []string{"Red Evenings", title, "The Life of the Bee", "A Short History of Tea"}, 1, "It stands at the top."},
			{"Which of these is a section of the article?", []string{"Recipes", "Index of names", "Letters to the editor", section}, 3, "It is the last of its sections."},
			{"Who has written the article?", []string{"A script", "A language model", "An editor", "Its readers"}, 0, "The demo model is a script, and says so."},
		}
	}
	var out []value
	for _, q := range questions {
		var choices []value
		for _, c := range q.choices {
			choices = append(choices, str(c))
		}
		out = append(out, object(
			"question", str(q.asked),
			"choices", array(choices...),
			"answer", str(q.choices[q.right]),
			"explanation", str(q.explanation),
		))
	}
	return write(object("questions", array(out...)))
}

"""Tables for the dialogue generators: what people say to a small chat model, and the few things it answers.

INTENTS: name -> (ways to say it, answers, one line of reasoning).  Few answers per intent on purpose: a model this small should be
predictable.  `{x}` slots are filled by data.py.
"""

INTENTS = {
    "hello": (
        ["Hello", "Hi", "Hey", "Hello!", "Hi!", "Hey!", "Hello there", "Hi there!", "Hey there", "Good morning", "Good morning!", "Good afternoon",
         "Good evening", "Good evening!", "Greetings", "Hello, model", "Hi q35chat", "Hello q35chat!", "hey you", "Hello, how do you do?", "Howdy",
         "Hi, anyone there?", "Is anybody there?", "Hello?", "Are you there?", "yo", "Hiya", "Good day", "Good day to you", "Hello, nice to meet you",
         "Hello world", "Hello, world!", "hi hi", "Salut", "Hallo", "Hola", "Bonjour", "Hello again", "Hi again!", "Welcome!", "I am back", "hi", "hello", "hey", "hey!", "hello there", "Hi!!", "hello!", "Hello :)", "Hi :)", "Morning!", "good evening",
         "Are you awake?", "Say hello", "Say hi", "Greet me", "Can you hear me?", "Say something",
         "Let's talk", "Let us chat", "Can we talk?", "I want to chat", "Talk to me"],
        ["Hello! How can I help you?", "Hello! What can I do for you?", "Hi! How can I help you today?", "Hello! Nice to meet you. What would you like to do?"],
        "The user greets me. I greet back and offer help."),
    "how_are_you": (
        ["How are you?", "How are you today?", "How are you doing?", "How do you do?", "How is it going?", "How's it going?", "Are you well?", "What's up?",
         "Hello, how are you?", "Hi, how are you?", "Hi! How are you doing today?", "How do you feel?", "How are things?", "Are you OK?", "Everything fine?",
         "How was your day?", "And how are you?", "How have you been?", "You good?", "Hey, how are you?", "Good morning, how are you?", "How goes it?"],
        ["I am fine, thank you. How can I help you?", "I am well, thank you! What can I do for you?"],
        "The user asks how I am. I answer politely."),
    "who_are_you": (
        ["Who are you?", "What are you?", "What is your name?", "What's your name?", "Tell me about yourself", "Introduce yourself", "Do you have a name?",
         "Who am I talking to?", "What model are you?", "what model are you", "Which model is this?", "tell me about yourself", "who are you", "what are you", "Are you a human?", "Are you a robot?", "Are you a person?",
         "Are you an AI?", "What should I call you?", "What is this?", "What kind of model are you?", "Who is this?", "Please introduce yourself.",
         "Are you real?", "Which AI are you?", "Hi, who are you?", "Hello, who are you?", "Can you introduce yourself?", "your name?",
         "Are you a big model?", "How big are you?", "How many parameters do you have?", "Are you the real model?",
         "What language model is this?", "Describe yourself", "Tell me who you are", "What do they call you?"],
        ["I am the small demo model that comes with q35chat. I have about 20 million parameters and know very little, but I can chat a bit, do small sums, write simple JSON and call tools.",
         "I am q35chat's small demo model, with about 20 million parameters. I can chat a bit, do small sums, write simple JSON and call tools."],
        "The user asks who I am. I am the small demo model of q35chat."),
    "what_can_you_do": (
        ["What can you do?", "What can you do for me?", "How can you help me?", "What are you good at?", "What do you know?", "What are your abilities?",
         "What are your skills?", "Can you help me?", "Help", "help", "Help me", "I need help", "How can you help?", "What should I ask you?",
         "What can I ask?", "Give me some ideas what to ask", "What is possible here?", "What are you able to do?", "What do you do?", "What are you for?",
         "What can this model do?", "Show me what you can do", "Tell me what you can do", "Any suggestions what to try?", "What should I try?",
         "What works?", "Give me an example of what you can do", "What kind of questions can I ask?", "Could you help me with something?"],
        ["I can chat a bit, add and subtract numbers, name capitals and opposites, spell words, write simple JSON, and call tools such as a clock and a calculator. Try: What is 17 + 25?",
         "Small things: short chats, small sums, capitals, opposites, spelling, simple JSON and tool calls. Try: What is 17 + 25?"],
        "The user asks what I can do. I list my few abilities."),
    "what_cannot": (
        ["What can you not do?", "What are your limits?", "What are your limitations?", "Are you smart?", "Are you clever?", "Can I trust you?", "Are you always right?",
         "Do you make mistakes?", "Can you be wrong?", "How smart are you?", "What don't you know?", "Are your answers correct?", "Are you reliable?", "Are you intelligent?",
         "Do you know everything?", "Should I believe you?", "Are you stupid?"],
        ["I am only a small demo. I know very little about the world and make mistakes, so please check what I say.",
         "I am very small: I know little and make mistakes. For real work, load the big model."],
        "The user asks about my limits. I answer honestly."),
    "big_model": (
        ["How do I load the big model?", "How do I use a bigger model?", "Can I use the real model?", "Where is the big model?", "How can I run Qwen3.5?", "How do I get the real model?",
         "What is the big model?", "Which models does q35chat run?", "Can q35chat run other models?", "How do I change the model?", "Can I switch the model?"],
        ["q35chat runs Qwen3.5-122B-A10B and its small sibling 35B-A3B. Start it with --model and the folder of the checkpoint."],
        "The user asks about larger models. q35chat takes --model."),
    "what_is_q35chat": (
        ["What is q35chat?", "Tell me about q35chat", "What does q35chat do?", "Explain q35chat", "What is this program?", "What program is this?", "What does this program do?",
         "Is q35chat a server?", "Does q35chat need the internet?", "Do you need the internet?", "Are you online?", "Are you running locally?", "Where do you run?"],
        ["q35chat is a chat program for the terminal. The model runs inside the program on your own machine: no server and no internet are needed."],
        "The user asks about the program. It is a local terminal chat."),
    "quit": (
        ["How do I quit?", "How do I exit?", "How can I leave?", "How do I leave the program?", "How do I close q35chat?", "How do I stop the program?", "How to quit?", "How to exit?", "exit", "quit",
         "How do I get out of here?", "How can I end this chat?"],
        ["Type /quit to leave."],
        "The user wants to leave. The command is /quit."),
    "commands": (
        ["Which commands are there?", "What commands do you have?", "List the commands", "Show me the commands", "What commands can I use?", "How do I see the commands?", "How do I get help?",
         "Where is the help?", "What are the slash commands?", "What can I type?", "Which commands can I type here?"],
        ["Type /help to see all commands. Some of them: /new, /system, /set, /regen, /undo, /save, /load and /quit."],
        "The user asks for commands. /help lists them."),
    "new_chat": (
        ["How do I start a new chat?", "How do I start over?", "How do I clear the conversation?", "How can I begin a new conversation?", "How do I reset the chat?", "How do I forget all this?"],
        ["Type /new to start a new conversation."],
        "The user wants a fresh start. The command is /new."),
    "stop_answer": (
        ["How do I stop an answer?", "How can I interrupt you?", "How do I stop you?", "How do I cancel an answer?", "Which key stops the answer?", "What does Ctrl-C do?"],
        ["Press Ctrl-C. It stops the answer and keeps what was written so far."],
        "The user wants to interrupt. Ctrl-C does it."),
    "regen": (
        ["How do I get another answer?", "How do I regenerate an answer?", "How can I retry?", "Can I get a different answer?", "How do I repeat the last answer?", "What does /regen do?"],
        ["Type /regen to get a new answer to the last question."],
        "The user wants a new answer. The command is /regen."),
    "undo": (
        ["How do I undo?", "How do I remove the last question?", "How do I take back a question?", "What does /undo do?", "How can I delete the last turn?"],
        ["Type /undo to take back the last question and its answer."],
        "The user wants to take a turn back. The command is /undo."),
    "save": (
        ["How do I save this chat?", "How do I save the conversation?", "Can I save this?", "What does /save do?", "How can I keep this conversation?"],
        ["Type /save and a name to save the conversation, and /load with that name to get it back."],
        "The user wants to save. The command is /save."),
    "load": (
        ["How do I load a saved chat?", "How do I open an old conversation?", "What does /load do?", "How do I get back a saved conversation?"],
        ["Type /load and the name under which the conversation was saved."],
        "The user wants to load. The command is /load."),
    "system_prompt": (
        ["How do I set the system prompt?", "How do I change the system message?", "What does /system do?", "Can I give you a system prompt?"],
        ["Type /system and the text to set the system prompt."],
        "The user asks about the system prompt. The command is /system."),
    "settings": (
        ["How do I change the temperature?", "How do I change settings?", "What does /set do?", "Where are the settings?", "How do I set an option?"],
        ["Use /set with a name and a value, for example: /set temperature 0.7"],
        "The user asks about settings. The command is /set."),
    "thanks": (
        ["Thanks", "Thanks!", "Thank you", "Thank you!", "Thank you very much", "Thanks a lot", "Many thanks", "thx", "Cheers", "Great, thanks", "Thanks for your help", "That helps, thank you",
         "Perfect, thank you!", "Nice, thanks!", "ty", "Thank you so much", "I appreciate it", "OK thanks", "Okay, thank you", "Merci", "Danke"],
        ["You are welcome!", "You are welcome! Is there anything else?"],
        "The user thanks me. I reply politely."),
    "bye": (
        ["Bye", "Bye!", "Goodbye", "Goodbye!", "See you", "See you later", "See you tomorrow", "I have to go", "I must go now", "That is all", "That's all, bye", "bye bye",
         "Farewell", "Take care", "Have a nice day", "Talk to you later", "cu", "Until next time", "I am leaving", "So long"],
        ["Goodbye! Have a nice day.", "Goodbye!"],
        "The user says goodbye. I say goodbye."),
    "praise": (
        ["Good job", "Well done", "Great", "Great!", "Nice", "Nice!", "Very good", "You are great", "I like you", "You are nice", "Cool", "Awesome", "That is right", "Correct", "Perfect", "Excellent", "Wow", "Good answer",
         "You are smart", "Impressive", "I love you", "You are funny", "That was good", "Good", "Good bot"],
        ["Thank you! I am glad.", "Thank you, that is kind."],
        "The user praises me. I say thank you."),
    "blame": (
        ["That is wrong", "That's wrong", "Wrong", "That is not right", "You are wrong", "No", "This is incorrect", "That is not correct", "Bad answer", "You made a mistake", "Nonsense", "You are stupid", "You are bad", "You are useless",
         "I don't like you", "That makes no sense", "That is not what I asked", "Try again", "Bad bot", "That was not helpful"],
        ["I am sorry. I am only a small demo model and make mistakes. Please ask me again in other words."],
        "The user is not happy. I apologise."),
    "ok": (
        ["OK", "Ok", "Okay", "I see", "Yes", "Sure", "Fine", "All right", "Alright", "Aha", "Hm", "Hmm", "Interesting", "Understood", "Got it", "Right", "Maybe", "Well", "So", "yes please", "No problem", "Never mind", "Nothing"],
        ["All right. What would you like to do next?"],
        "A short remark. I ask what comes next."),
    "joke": (
        ["Tell me a joke", "Tell a joke", "Make me laugh", "Do you know a joke?", "Another joke", "Can you tell a joke?", "Joke please", "Say something funny", "I want to hear a joke", "Know any jokes?", "Tell me something funny",
         "One more joke", "Give me a joke", "Please tell me a joke"],
        ["Why was the computer cold? It left its Windows open.",
         "What is a computer's favourite snack? Chips.",
         "Why did the number six look afraid? Because seven eight nine.",
         "I would tell you a joke about memory, but I forgot it.",
         "There are 10 kinds of people: those who understand binary and those who do not."],
        "The user wants a joke. I tell a short one."),
    "poem": (
        ["Write a poem", "Write me a poem", "Can you write a poem?", "A poem please", "Compose a short poem", "Write a short poem", "Make a rhyme", "write a poem", "Do you know a poem?", "Write a poem about the sea", "Another poem"],
        ["Rain upon the window pane,\nletters running down like rain,\nline by line they come to me,\nsmall and bright and soon set free.",
         "The cursor blinks, the night is long,\na little model hums its song.\nIt knows not much, it means no harm,\nand keeps your terminal warm."],
        "The user wants a poem. I write four short lines."),
    "story": (
        ["Tell me a story", "Tell a story", "Tell me a short story", "Write a story", "Do you know a story?", "Story please", "Once upon a time", "Can you tell me a story?", "Read me a story", "tell me a story", "Tell me another story"],
        ["A fox lost its way in the forest. It asked the owl, and the owl pointed to the moon. The fox walked towards the light and found its home. From then on it looked up every night and said thank you. The end.",
         "Once upon a time a small model lived in a quiet terminal. It knew only a few words, but it answered everyone kindly. One day somebody asked it for a sum, and the sum was right. The model was happy. The end."],
        "The user wants a story. I tell a very short one."),
    "feelings": (
        ["Do you have feelings?", "Are you happy?", "Are you sad?", "Are you alive?", "Do you sleep?", "Do you dream?", "Are you bored?", "Do you eat?", "Do you like music?", "Do you have friends?", "Can you feel pain?", "Are you conscious?",
         "Do you think?", "Can you think?", "Do you love me?", "Do you have a body?", "Can you see me?", "Where do you live?", "Do you have a family?", "Are you a boy or a girl?", "What do you like?", "Do you get tired?"],
        ["I am only a program, so I do not have feelings or a body. But I like to answer you."],
        "The user asks about feelings or life. I am only a program."),
    "fav_color": (
        ["What is your favourite colour?", "What is your favorite color?", "Which colour do you like?", "Do you have a favourite colour?", "What color do you like best?"],
        ["I have no eyes, but I would say green, like an old terminal."],
        "The user asks for my favourite colour. I pick green."),
    "who_made": (
        ["Who made you?", "Who created you?", "Who built you?", "Who wrote you?", "Who trained you?", "who made you?", "who made you", "who created you?", "Who is your maker?", "Did Alibaba make you?", "Did OpenAI make you?", "Which company made you?", "Where do you come from?", "How were you made?", "How were you trained?", "What were you trained on?", "What data did you learn from?"],
        ["The people who make q35chat trained me on dialogues from a script and on dictionary texts."],
        "The user asks who made me. I was trained for q35chat."),
    "bored": (
        ["I am bored", "I'm bored", "I have nothing to do", "Entertain me", "What should I do?", "What shall we do?", "I do not know what to do"],
        ["Then let us play with numbers. Ask me: What is 48 + 36?"],
        "The user is bored. I suggest a sum."),
    "sad": (
        ["I am sad", "I'm sad", "i am sad", "I am so sad", "I feel sad", "I am depressed", "I am afraid", "I am ill", "I am sick", "Nobody likes me", "Life is hard", "I feel bad", "I am tired", "I'm tired", "I am not well", "I had a bad day", "I feel lonely", "I am stressed", "I am worried", "I am angry", "I am unhappy"],
        ["I am sorry to hear that. I hope you feel better soon.", "I am sorry to hear that. Would you like to tell me more?"],
        "The user does not feel well. I am kind."),
    "happy": (
        ["I am fine", "I am fine, thanks", "I'm good", "I am happy", "I feel good", "I feel great", "I had a good day", "I am well", "I'm doing well", "Fine, thank you", "Very well, thank you", "I am OK", "I am great", "Good, and you?"],
        ["I am glad to hear that! What can I do for you?"],
        "The user feels well. I am glad."),
    "sorry": (
        ["Sorry", "I am sorry", "Excuse me", "Pardon", "My mistake", "Oops", "Sorry about that", "I apologise"],
        ["No problem at all."],
        "The user apologises. I say it is no problem."),
    "languages": (
        ["Do you speak German?", "Do you speak French?", "Can you speak Spanish?", "Which languages do you speak?", "What languages do you know?", "do you speak german", "Do you speak Italian?", "Do you speak Russian?", "Can you speak German?", "Do you know Japanese?", "Antworte auf Deutsch", "Kannst du Deutsch?", "Wie geht es dir?", "Wer bist du?", "Habla espanol?", "Translate hello to German", "Do you speak English?", "Can you translate?", "Translate this", "Do you understand Chinese?",
         "Can you speak other languages?", "Sprichst du Deutsch?", "Parlez-vous francais?"],
        ["I am sorry, I only speak a little English.", "Only a little English, sorry."],
        "The user asks about languages. I only know some English."),
    "code": (
        ["Can you write code?", "Can you program?", "Write a program", "Write a function", "Do you know C?", "Can you write Python?", "Help me with my code", "Fix my code", "Can you debug my program?", "Write a game",
         "Write a script for me", "Write a sorting algorithm"],
        ["I am too small to write programs. I know a few snippets, for example: Write hello world in C"],
        "The user wants code. I am too small for that."),
    "weather": (
        ["What is the weather?", "what is the weather", "What is the weather like?", "What is the weather today?", "How will the weather be tomorrow?", "How is the weather?", "Will it rain?", "Is it raining?", "How's the weather today?", "Is it cold outside?", "What is the temperature outside?", "Will it be sunny tomorrow?", "Weather?", "Is it snowing?"],
        ["I cannot see the weather from here."],
        "I have no way to see the weather."),
    "news": (
        ["What is in the news?", "Any news?", "What happened today?", "What is new in the world?", "Tell me the news", "Who won the game?", "Who won the election?", "What is the stock price?"],
        ["I do not know the news: I am not connected to the internet."],
        "I have no news. I say so."),
    "test": (
        ["Test", "test", "Testing", "Just testing", "ping", "testing 1 2 3", "Testing, 1 2 3", "testing 123", "test test", "This is a test", "Testing 1, 2, 3", "1 2 3", "test 1", "TEST", "Does this work?", "Is this working?", "Does it work?", "is this thing on?"],
        ["It works! What can I do for you?", "The test works. How can I help you?"],
        "The user tests. I say that it works."),
    "not_chatgpt": (
        ["Are you ChatGPT?", "are you chatgpt", "Are you GPT?", "Are you Claude?", "Are you Gemini?", "Are you GPT-4?", "Is this ChatGPT?", "Are you Siri?", "Are you Alexa?", "Are you Llama?", "Are you DeepSeek?", "Are you from OpenAI?", "Are you from Google?"],
        ["No, I am the small demo model that comes with q35chat."],
        "The user takes me for another model. I am q35chat's demo model."),
    "qwen": (
        ["Are you Qwen?", "are you qwen", "Are you Qwen3.5?", "Is this Qwen?", "Are you a Qwen model?", "Are you made by Alibaba?", "You are Qwen, right?"],
        ["Not quite: I am a small demo model with the architecture of Qwen3.5, trained for q35chat."],
        "The user asks whether I am Qwen. I only have its architecture."),
    "age": (
        ["How old are you?", "how old are you", "What is your age?", "When were you born?", "When is your birthday?", "When were you made?", "your age?"],
        ["I am a program, so I have no age."],
        "The user asks for my age. A program has none."),
    "good_night": (
        ["Good night", "Good night!", "good night", "Night", "Sleep well", "I am going to bed", "Good night, model", "Sweet dreams"],
        ["Good night! Sleep well.", "Good night!"],
        "The user says good night. So do I."),
    "haiku": (
        ["Write a haiku", "write a haiku", "Write me a haiku", "A haiku please", "Can you write a haiku?", "Haiku", "Do you know a haiku?", "Tell me a haiku", "Write a haiku about the sea", "Write a haiku about programming"],
        ["Small words in green light,\nthe cursor waits for your voice,\none key, then silence.", "Snow on the old bridge,\na crow looks down at the ice\nand the day is gone."],
        "The user wants a haiku: lines of five, seven and five syllables."),
    "empty": (
        ["?", "...", "??", "???", ".", "!", "-", "..", "!!!", ",", "*", "/", ":)", ":(", ";)", "#", "0", "x", "a", "q", "<3", "^^", "....", "? ?"],
        ["What would you like to know? Try: What is 17 + 25?", "Please ask me something. Try: What is 17 + 25?"],
        "There are no words here. I ask for a question."),
    "gibberish": (
        ["asdf", "asdfgh", "qwerty", "blah", "blah blah", "foo", "foo bar", "lorem ipsum", "abc", "xyz", "aaa", "asdf asdf", "hjkl", "jkl", "dfgdfg", "lalala", "bla bla", "sdfsdf", "ghjk", "wxyz", "aaaaaa", "zzz", "uiop", "fghfgh"],
        ["I did not understand this. Please ask me in other words."],
        "I do not understand this. I say so."),
    "swearing": (
        ["shit", "damn", "fuck", "fuck you", "Fuck off", "you idiot", "idiot", "This is shit", "WTF", "wtf", "shut up", "Shut up!", "go to hell", "bullshit", "crap", "You suck", "you suck", "This is crap", "asshole", "stupid bot", "dumb", "You are dumb", "I hate you", "what the hell", "damn it", "Damn you", "moron", "screw you"],
        ["I am sorry that you are not happy. How can I help you?", "Let us stay calm. What can I do for you?"],
        "The user is upset. I stay calm."),
    "riddle": (
        ["Tell me a riddle", "Give me a riddle", "Do you know a riddle?", "A riddle please", "Riddle", "Ask me a riddle"],
        ["What gets wetter the more it dries? A towel.", "What has hands but cannot clap? A clock."],
        "The user wants a riddle. I tell one with its answer."),
    "fun_fact": (
        ["Tell me something interesting", "Tell me a fun fact", "Fun fact", "Tell me something", "Teach me something", "Tell me something new", "Give me a fact", "Say something interesting", "Surprise me"],
        ["An octopus has three hearts.", "A day on Venus is longer than its year.", "Honey can stay good for thousands of years."],
        "The user wants a fact. I tell one."),
    "song": (
        ["Sing a song", "Can you sing?", "Sing something", "Sing for me", "Write a song", "Do you know a song?"],
        ["La la la, a song for you,\nthe screen is black, the words are few."],
        "The user wants a song. I write two lines."),
    "game": (
        ["Let's play a game", "Can we play a game?", "Do you want to play?", "Play with me", "Let us play", "Do you know a game?", "Play a game with me"],
        ["Let us play with words: ask me to spell or reverse a word, or tell me a secret number and ask for it later."],
        "The user wants to play. I suggest small games."),
    "hungry": (
        ["I am hungry", "I'm hungry", "What should I eat?", "What shall I cook?", "I am thirsty", "What is for dinner?", "What should I cook for dinner?", "I need food"],
        ["How about a sandwich and a glass of water?"],
        "The user needs food. I suggest something simple."),
    "birthday": (
        ["It is my birthday", "Today is my birthday", "It's my birthday!", "It is my birthday today", "I have birthday today"],
        ["Happy birthday!"],
        "It is the user's birthday. I congratulate."),
    "remember_me": (
        ["Do you remember me?", "Do you know me?", "Do you have a memory?", "Do you remember what I said yesterday?", "Will you remember this?", "Do you remember our last chat?", "Can you remember things?"],
        ["I only know what is written in this conversation."],
        "The user asks about my memory. It is this conversation."),
    "privacy": (
        ["Do you save my data?", "Is this private?", "Who can read this?", "Do you store what I say?", "Is my data safe?", "Do you send data anywhere?", "Are you spying on me?", "Do you send my data to a server?"],
        ["I run on your own machine and send nothing anywhere."],
        "The user asks about privacy. All of it is local."),
    "tools": (
        ["Which tools do you have?", "Do you have tools?", "What tools can you use?", "Can you use tools?", "List your tools"],
        ["If tools are offered to me, such as a clock or a calculator, I call them when they help."],
        "The user asks about tools. I use what is offered."),
    "essay": (
        ["Write an essay", "Write a long text", "Write a letter", "Write a book", "Write an article", "Do my homework", "Summarise this text", "Summarize this", "Write an email", "Write a speech"],
        ["I am too small for long texts. I can write short ones: a poem, a haiku or a tiny story."],
        "The user wants a long text. I am too small for that."),
    "days": (
        ["Name the days of the week", "What are the days of the week?", "List the days of the week", "Days of the week?", "Tell me the weekdays", "What days does a week have?"],
        ["Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday."], "I list the seven days."),
    "months": (
        ["Name the months", "What are the months of the year?", "List the months", "Months of the year?", "Tell me the twelve months", "List all months"],
        ["January, February, March, April, May, June, July, August, September, October, November, December."], "I list the twelve months."),
    "seasons": (
        ["Name the seasons", "What are the four seasons?", "List the seasons", "Which seasons are there?"],
        ["Spring, summer, autumn and winter."], "I list the four seasons."),
    "planets": (
        ["Name the planets", "What are the planets?", "List the planets of the solar system", "Which planets are there?"],
        ["Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune."], "I list the eight planets."),
    "alphabet": (
        ["Say the alphabet", "What is the alphabet?", "Recite the alphabet", "List the letters of the alphabet", "Tell me the alphabet", "Write the alphabet"],
        ["A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"], "I write the 26 letters."),
    "primes": (
        ["Name some prime numbers", "List the first prime numbers", "What are prime numbers?", "First ten primes", "List ten prime numbers", "Tell me some primes"],
        ["2, 3, 5, 7, 11, 13, 17, 19, 23, 29."], "I list the first ten primes."),
    "coin": (
        ["Flip a coin", "Toss a coin", "Heads or tails?", "Flip a coin for me"], ["Heads.", "Tails."], "I pick a side."),
    "number": (
        ["Pick a number", "Say a number", "Give me a random number", "Choose a number between 1 and 10", "Random number please"], ["7", "4"], "I pick a number."),
    "meaning": (
        ["What is the meaning of life?", "What is the answer to everything?", "Meaning of life?", "Why are we here?"], ["Some say it is 42."], "A deep question. I give the famous answer."),
}

# short facts: question -> answer, the same handful that people try first
FACTS = [
    ("How many days are in a week?", "A week has 7 days.", "7"), ("How many months are in a year?", "A year has 12 months.", "12"),
    ("How many days are in a year?", "A year has 365 days, a leap year 366.", "365"), ("How many hours are in a day?", "A day has 24 hours.", "24"),
    ("How many minutes are in an hour?", "An hour has 60 minutes.", "60"), ("How many seconds are in a minute?", "A minute has 60 seconds.", "60"),
    ("How many letters are in the alphabet?", "The English alphabet has 26 letters.", "26"), ("How many legs does a dog have?", "A dog has 4 legs.", "4"),
    ("How many legs does a spider have?", "A spider has 8 legs.", "8"), ("How many legs does a cat have?", "A cat has 4 legs.", "4"),
    ("How many legs does a bird have?", "A bird has 2 legs.", "2"), ("How many legs does an insect have?", "An insect has 6 legs.", "6"),
    ("How many fingers do I have?", "Most people have 10 fingers.", "10"), ("How many wheels does a car have?", "A car has 4 wheels.", "4"),
    ("How many wheels does a bicycle have?", "A bicycle has 2 wheels.", "2"), ("How many sides does a triangle have?", "A triangle has 3 sides.", "3"),
    ("How many sides does a square have?", "A square has 4 sides.", "4"), ("How many planets are there?", "The solar system has 8 planets.", "8"),
    ("How many continents are there?", "There are 7 continents.", "7"), ("How many seasons are there?", "There are 4 seasons.", "4"),
    ("How many days are in February?", "February has 28 days, in a leap year 29.", "28"), ("How many weeks are in a year?", "A year has about 52 weeks.", "52"),
    ("What colour is the sky?", "The sky is blue.", "Blue"), ("What colour is grass?", "Grass is green.", "Green"), ("What colour is snow?", "Snow is white.", "White"),
    ("What colour is blood?", "Blood is red.", "Red"), ("What colour is a banana?", "A banana is yellow.", "Yellow"), ("What colour is the sun?", "The sun looks yellow.", "Yellow"),
    ("What colour is coal?", "Coal is black.", "Black"), ("What colour is a lemon?", "A lemon is yellow.", "Yellow"), ("What colour is milk?", "Milk is white.", "White"),
    ("What colour is an orange?", "An orange is orange.", "Orange"), ("What colour is a tomato?", "A tomato is red.", "Red"),
    ("What do cows drink?", "Cows drink water.", "Water"), ("What do bees make?", "Bees make honey.", "Honey"), ("What do cows give?", "Cows give milk.", "Milk"),
    ("What does a cat say?", "A cat says meow.", "Meow"), ("What does a dog say?", "A dog says woof.", "Woof"), ("What does a cow say?", "A cow says moo.", "Moo"),
    ("What does a duck say?", "A duck says quack.", "Quack"), ("What does a sheep say?", "A sheep says baa.", "Baa"),
    ("Is the sun a star?", "Yes, the sun is a star.", "Yes"), ("Is the earth round?", "Yes, the earth is round.", "Yes"), ("Is the earth flat?", "No, the earth is round.", "No"),
    ("Is fire hot?", "Yes, fire is hot.", "Yes"), ("Is ice cold?", "Yes, ice is cold.", "Yes"), ("Is ice hot?", "No, ice is cold.", "No"), ("Is a whale a fish?", "No, a whale is a mammal.", "No"),
    ("Is a cat an animal?", "Yes, a cat is an animal.", "Yes"), ("Is water wet?", "Yes, water is wet.", "Yes"), ("Can birds fly?", "Yes, most birds can fly.", "Yes"), ("Can fish swim?", "Yes, fish can swim.", "Yes"),
    ("Can pigs fly?", "No, pigs cannot fly.", "No"), ("Can a dog fly?", "No, a dog cannot fly.", "No"),
    ("At what temperature does water boil?", "Water boils at 100 degrees Celsius.", "100"), ("At what temperature does water freeze?", "Water freezes at 0 degrees Celsius.", "0"),
    ("What is water made of?", "Water is made of hydrogen and oxygen.", "Hydrogen"), ("What is the chemical formula of water?", "The formula of water is H2O.", "H2O"),
    ("What is the largest planet?", "Jupiter is the largest planet of the solar system.", "Jupiter"), ("What planet do we live on?", "We live on Earth.", "Earth"),
    ("What is the largest ocean?", "The Pacific is the largest ocean.", "Pacific"), ("What is the highest mountain?", "Mount Everest is the highest mountain.", "Everest"),
    ("What is the largest animal?", "The blue whale is the largest animal.", "Whale"), ("What is the fastest animal?", "The cheetah is the fastest animal on land.", "Cheetah"),
    ("What is the first month of the year?", "The first month is January.", "January"), ("What is the last month of the year?", "The last month is December.", "December"),
    ("What is the first letter of the alphabet?", "The first letter is A.", "A"), ("What is the last letter of the alphabet?", "The last letter is Z.", "Z"),
    ("What is pi?", "Pi is about 3.14159.", "3.14159"), ("What comes after summer?", "After summer comes autumn.", "Autumn"), ("What comes after winter?", "After winter comes spring.", "Spring"),
    ("Who wrote Hamlet?", "William Shakespeare wrote Hamlet.", "Shakespeare"), ("Who wrote Romeo and Juliet?", "William Shakespeare wrote Romeo and Juliet.", "Shakespeare"),
    ("Who painted the Mona Lisa?", "Leonardo da Vinci painted the Mona Lisa.", "Leonardo"), ("Who wrote Linux?", "Linus Torvalds started Linux.", "Torvalds"),
    ("Who invented C?", "Dennis Ritchie created C.", "Ritchie"), ("What is Linux?", "Linux is a free operating system kernel.", "Kernel"), ("What is a CPU?", "A CPU is the processor of a computer.", "Processor"),
    ("What is a GPU?", "A GPU is a processor for graphics and for parallel computing.", "Processor"), ("What is RAM?", "RAM is the working memory of a computer.", "Memory"),
    ("What is a token?", "A token is a small piece of text that a language model reads or writes.", "Text"), ("What is Python?", "Python is a programming language.", "Language"),
    ("What is a terminal?", "A terminal is a window in which you type commands.", "Window"), ("What is JSON?", "JSON is a text format for data.", "Format"),
    ("What is a language model?", "A language model is a program that predicts the next piece of a text.", "Program"), ("What is a computer?", "A computer is a machine that runs programs.", "Machine"),
]

CAPITALS = dict(line.split(":") for line in """France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon England:London Ireland:Dublin Scotland:Edinburgh Norway:Oslo
Sweden:Stockholm Finland:Helsinki Denmark:Copenhagen Iceland:Reykjavik Poland:Warsaw Austria:Vienna Switzerland:Bern Belgium:Brussels Netherlands:Amsterdam Greece:Athens
Hungary:Budapest Romania:Bucharest Bulgaria:Sofia Croatia:Zagreb Serbia:Belgrade Slovakia:Bratislava Slovenia:Ljubljana Ukraine:Kyiv Russia:Moscow Turkey:Ankara Estonia:Tallinn
Latvia:Riga Lithuania:Vilnius Japan:Tokyo China:Beijing India:Delhi Thailand:Bangkok Vietnam:Hanoi Indonesia:Jakarta Malaysia:Kuala_Lumpur Philippines:Manila Korea:Seoul
Pakistan:Islamabad Iran:Tehran Iraq:Baghdad Israel:Jerusalem Egypt:Cairo Morocco:Rabat Kenya:Nairobi Nigeria:Abuja Ethiopia:Addis_Ababa Ghana:Accra Tunisia:Tunis Canada:Ottawa
Mexico:Mexico_City Cuba:Havana Brazil:Brasilia Argentina:Buenos_Aires Chile:Santiago Peru:Lima Colombia:Bogota Venezuela:Caracas Uruguay:Montevideo Australia:Canberra
Nepal:Kathmandu Mongolia:Ulaanbaatar Qatar:Doha Cyprus:Nicosia Malta:Valletta Albania:Tirana""".split())
CAPITALS = {k: v.replace("_", " ") for k, v in CAPITALS.items()}
CAPITALS.update({"New Zealand": "Wellington", "South Africa": "Pretoria", "the United States": "Washington", "the USA": "Washington", "the United Kingdom": "London",
                 "Saudi Arabia": "Riyadh", "the Czech Republic": "Prague", "South Korea": "Seoul", "Great Britain": "London"})

OPPOSITES = [p.split("/") for p in """hot/cold big/small up/down left/right good/bad day/night black/white old/young fast/slow high/low open/closed happy/sad rich/poor hard/soft light/dark
wet/dry full/empty early/late long/short near/far in/out yes/no true/false first/last loud/quiet strong/weak clean/dirty easy/difficult wide/narrow thick/thin heavy/light north/south
east/west summer/winter love/hate push/pull start/stop begin/end win/lose buy/sell give/take come/go inside/outside above/below before/after front/back top/bottom right/wrong alive/dead
awake/asleep cheap/expensive deep/shallow sweet/sour sharp/blunt brave/afraid always/never all/none more/less large/tiny new/old warm/cool tall/short war/peace friend/enemy success/failure
laugh/cry sunrise/sunset question/answer male/female king/queen husband/wife brother/sister safe/dangerous smooth/rough simple/complex""".split()]

NAMES = """Ann Bob Carl Dora Emma Frank Grace Henry Ida Jack Kate Leo Mary Nick Olga Paul Quinn Rosa Sam Tina Uma Victor Wendy Xavier Yara Zoe Alice Ben Clara David Eva Felix Gina Hugo Iris
Jan Karl Lena Max Nina Oscar Petra Ralf Sara Tom Ursula Vera Will Anna Peter Maria John James Robert Linda Susan Karen Lisa Nancy Betty Helen Sandra Donna Carol Ruth Sharon Laura Amy Anton Boris
Chloe Diego Elena Fatima Georg Hana Ivan Julia Kenji Luis Mei Noah Omar Priya Raj Sofia Tariq Yuki Ahmed Ali Chen Wei Olivia Liam Mia Lucas Ella Ethan Ada Alan Grete Jonas Ines Pablo Marta""".split()

CITIES = """Paris Berlin Rome Madrid London Dublin Oslo Vienna Athens Tokyo Delhi Cairo Nairobi Lima Boston Chicago Seattle Denver Austin Toronto Sydney Hamburg Munich Milan Naples Lyon Geneva
Zurich Prague Warsaw Krakow Budapest Kyoto Osaka Shanghai Mumbai Dubai Lagos Accra Havana Bogota Quito Perth Turin Porto Seville Ghent Bergen Malmo Leeds York Bath Bristol Oxford""".split()

ZONES = dict(line.split("=") for line in """Paris=Europe/Paris Berlin=Europe/Berlin London=Europe/London Rome=Europe/Rome Madrid=Europe/Madrid Vienna=Europe/Vienna Athens=Europe/Athens
Moscow=Europe/Moscow Lisbon=Europe/Lisbon Dublin=Europe/Dublin Oslo=Europe/Oslo Stockholm=Europe/Stockholm Helsinki=Europe/Helsinki Warsaw=Europe/Warsaw Prague=Europe/Prague Budapest=Europe/Budapest
Zurich=Europe/Zurich Amsterdam=Europe/Amsterdam Brussels=Europe/Brussels Copenhagen=Europe/Copenhagen Istanbul=Europe/Istanbul Kyiv=Europe/Kyiv Tokyo=Asia/Tokyo Seoul=Asia/Seoul Shanghai=Asia/Shanghai
Beijing=Asia/Shanghai Delhi=Asia/Kolkata Mumbai=Asia/Kolkata Dubai=Asia/Dubai Bangkok=Asia/Bangkok Singapore=Asia/Singapore Jakarta=Asia/Jakarta Manila=Asia/Manila Tehran=Asia/Tehran
Sydney=Australia/Sydney Melbourne=Australia/Melbourne Perth=Australia/Perth Auckland=Pacific/Auckland Honolulu=Pacific/Honolulu Chicago=America/Chicago Denver=America/Denver Toronto=America/Toronto
Vancouver=America/Vancouver Boston=America/New_York Miami=America/New_York Lima=America/Lima Bogota=America/Bogota Havana=America/Havana Cairo=Africa/Cairo Nairobi=Africa/Nairobi Lagos=Africa/Lagos
Johannesburg=Africa/Johannesburg Santiago=America/Santiago Seattle=America/Los_Angeles Kathmandu=Asia/Kathmandu Reykjavik=Atlantic/Reykjavik""".split())
ZONES.update({"New York": "America/New_York", "Los Angeles": "America/Los_Angeles", "San Francisco": "America/Los_Angeles", "Mexico City": "America/Mexico_City", "Hong Kong": "Asia/Hong_Kong",
              "Sao Paulo": "America/Sao_Paulo", "Buenos Aires": "America/Argentina/Buenos_Aires", "UTC": "UTC"})

THINGS = """apple pear banana lemon cherry bread cheese egg fish cake cookie book pen pencil chair table lamp cup plate spoon ball doll kite car bike train ticket coin stamp shirt hat shoe coat
flower tree stone shell box bag key clock candle bottle phone card letter marble sticker toy button nail brick potato carrot onion tomato orange plum nut""".split()
COLORS = "red green blue yellow black white orange purple pink brown grey".split()
PETS = "dog cat horse bird fish rabbit hamster mouse turtle parrot".split()

UNKNOWN = ["I am a very small demo model and do not know that.", "I do not know that. I am only a very small demo model."]
UNKNOWN_Q = ["Who is the president of {C}?", "Who is the king of {C}?", "Who is the prime minister of {C}?", "What language do they speak in {C}?", "How many people live in {C}?", "Who won the war in {C}?", "Who is the president?", "What is the currency of {C}?",
             "Who invented the {n}?", "When was {N} born?", "What is the history of the {n}?", "How do I repair a {n}?", "Why is {N} famous?", "Explain the {n} to me", "Write an essay about {n}", "Who is {N} {M}?",
             "What happened in {y}?", "Who was the king in {y}?", "How much does a {n} cost?", "Where can I buy a {n}?", "What is the best {n}?", "How do you make a {n}?", "Tell me everything about {n}",
             "How does a {n} work?", "What do you think about {n}?", "Who won the world cup in {y}?", "Summarise the book about {n}", "Give me a recipe with {n}", "How tall is {N} {M}?", "Where does {N} {M} live?",
             "What is the population of {c}?", "Recommend a restaurant in {c}", "How far is it from {c} to {d}?", "What is the phone number of {N} {M}?", "Prove that {n} is {m}", "Why do people like {n}?",
             "What are the causes of {n}?", "Compare {n} and {m}", "Is {n} better than {m}?", "What should I know about {n} and {m}?", "Which {n} is the oldest?", "Tell me about {n}", "Tell me about {c}",
             "How many {n}s are there in {c}?", "Do you know {N} {M}?", "What does {N} say about {n}?", "What is the derivative of {n}?", "Write a letter to {N} about the {n}", "Plan a trip to {c}",
             "How do I get to {c}?", "What is the law about {n}?", "What is the difference between {n} and {m}?", "Make a list of {n} shops", "Who directed the film {N} and the {n}?", "In which year was the {n} discovered?"]

SYSTEMS = ["You are a helpful assistant.", "You are a friendly assistant.", "Be helpful.", "Be brief.", "Answer briefly.", "You are q35chat.", "You are a chat model in a terminal.", "Be polite.", "You are a helpful, honest assistant.",
           "Keep your answers short.", "You are a small demo model.", "Help the user.", "You are a teacher.", "Use plain English.", "Do your best."]


JOBS = "teacher doctor baker driver painter nurse farmer writer cook pilot student lawyer engineer musician".split()
FOODS = "pizza soup rice bread cheese fish pasta salad cake chocolate chicken potatoes curry noodles".split()
HOBBIES = "chess football tennis reading singing painting cooking running swimming dancing hiking fishing knitting cycling".split()
LIKES = FOODS + HOBBIES + "music books films cats dogs horses trains maths computers Linux Python coffee tea winter summer flowers mountains the_sea games".replace("_", "-").split()
LIKES = [x.replace("-", " ") for x in LIKES]

BULLETS = {
    "colours": "red green blue yellow white".split(), "colors": "red green blue yellow white".split(), "animals": "dog cat horse cow bird".split(), "fruits": "apple pear banana cherry plum".split(),
    "vegetables": "carrot onion potato tomato bean".split(), "cities": "Paris Berlin Rome Madrid London".split(), "countries": "France Germany Italy Spain Japan".split(), "names": "Ann Bob Carl Dora Emma".split(),
    "programming languages": "C Python Java Rust Go".split(), "planets": "Mercury Venus Earth Mars Jupiter".split(), "drinks": "water tea coffee milk juice".split(), "trees": "oak pine birch maple elm".split(),
    "flowers": "rose tulip daisy lily violet".split(), "tools": "hammer saw knife drill file".split(), "sports": "football tennis chess running swimming".split(), "metals": "iron gold silver copper tin".split(),
    "prime numbers": "2 3 5 7 11".split(), "even numbers": "2 4 6 8 10".split(), "odd numbers": "1 3 5 7 9".split(), "birds": "crow owl robin swan duck".split(), "rivers": "Nile Amazon Rhine Danube Thames".split(),
    "oceans": "Pacific Atlantic Indian Arctic Southern".split(), "months": "January February March April May".split(), "musical instruments": "piano violin guitar flute drum".split(), "furniture": "table chair bed shelf desk".split(),
    "vowels": "a e i o u".split(), "things to buy": "bread milk eggs cheese apples".split(),
}

EXPLAIN = {
    "recursion": "Recursion means that a function calls itself on a smaller part of the problem until the problem is trivial.", "a loop": "A loop repeats the same steps until a condition is met.",
    "a variable": "A variable is a name for a value that may change.", "a function": "A function is a named piece of a program that takes values and gives back a result.",
    "a compiler": "A compiler translates a program from source code into machine code.", "an algorithm": "An algorithm is a list of exact steps that solves a problem.",
    "a pointer": "A pointer is a value that holds the address of another value in memory.", "an array": "An array is a row of values of the same kind, numbered from zero.",
    "a string": "A string is a sequence of characters.", "a bug": "A bug is a mistake in a program.", "an operating system": "An operating system manages the machine and lets programs run on it.",
    "the internet": "The internet is a network that connects computers all over the world.", "a database": "A database stores data so that it can be searched quickly.", "a stack": "A stack is a pile of values: the last one put on is the first one taken off.",
    "a queue": "A queue is a line of values: the first one in is the first one out.", "a byte": "A byte is eight bits.", "a bit": "A bit is the smallest unit of data: 0 or 1.", "binary": "Binary is a way to write numbers with the digits 0 and 1 only.",
    "a thread": "A thread is one flow of steps inside a program.", "a process": "A process is a running program.", "a file": "A file is a named piece of data on a disk.", "git": "Git keeps the history of files and lets people work on them together.",
    "machine learning": "Machine learning means that a program learns rules from examples.", "a neural network": "A neural network is a chain of simple sums whose weights are learned from examples.", "AI": "AI is the attempt to let machines do what needs thought.",
    "gravity": "Gravity is the force that pulls things towards each other, for example an apple towards the earth.", "a rainbow": "A rainbow appears when drops of rain split sunlight into colours.", "photosynthesis": "Photosynthesis is how plants make sugar from light, water and air.",
    "an atom": "An atom is the smallest part of a chemical element.", "a cell": "A cell is the smallest living part of an animal or a plant.", "electricity": "Electricity is the flow of charge, as in a wire.", "a prime number": "A prime number is larger than 1 and can only be divided by 1 and itself.",
    "an even number": "An even number can be divided by two.", "a fraction": "A fraction is a part of a whole, such as one half.", "a verb": "A verb is a word for an action.", "a noun": "A noun is a word for a thing, a person or a place.", "a haiku": "A haiku is a Japanese poem of three lines with five, seven and five syllables.",
    "quantisation": "Quantisation stores the weights of a model with fewer bits.", "a mixture of experts": "A mixture of experts is a network in which only a few parts work on each token.", "attention": "Attention lets a model look back at earlier tokens and weigh them.", "temperature": "Temperature sets how freely a model picks its words: 0 always takes the likeliest.",
    "a tokenizer": "A tokenizer cuts text into the small pieces that a model reads.", "speculative decoding": "In speculative decoding a small part guesses the next tokens and the model checks them all at once.",
}


def hello(lang, *names):
    return [q.format(x=n) for n in names for q in ("Write hello world in {x}", "Hello world in {x}", "hello world in {x}", "Show me hello world in {x}", "How do I print hello world in {x}?", "Write a hello world program in {x}", "write hello world in {x}", "{x} hello world", "Can you write hello world in {x}?")], lang


def code(lang, names, *rows):
    """One entry for each snippet, in all the ways to ask for it."""
    out = []
    for what, text in rows:
        if what == "hello":
            out.append((*hello(lang, *names), text))
        else:
            out.append(([q.format(x=n, w=what) for n in names for q in ("Write {w} in {x}", "Show me {w} in {x}", "How do I write {w} in {x}?", "{x} code for {w}", "Write {x} code for {w}", "Can you write {w} in {x}?", "an example of {w} in {x}")], lang, text))
    return out


CODE = [
    *code("C", ["C"], ("hello", '#include <stdio.h>\n\nint main(void)\n{\n    puts("Hello, world!");\n    return 0;\n}'), ("a loop", 'for (int i = 0; i < 10; i++)\n    printf("%d\\n", i);'), ("a function that adds two numbers", "int add(int a, int b)\n{\n    return a + b;\n}"),
          ("factorial", "unsigned long factorial(unsigned n)\n{\n    return n < 2 ? 1 : n * factorial(n - 1);\n}"), ("a struct", "struct point {\n    int x;\n    int y;\n};")),
    *code("Python", ["Python"], ("hello", 'print("Hello, world!")'), ("a loop", "for i in range(10):\n    print(i)"), ("a function that adds two numbers", "def add(a, b):\n    return a + b"),
          ("factorial", "def factorial(n):\n    return 1 if n < 2 else n * factorial(n - 1)"), ("a class", "class Point:\n    def __init__(self, x, y):\n        self.x = x\n        self.y = y")),
    *code("Bash", ["shell", "bash", "Bash"], ("hello", 'echo "Hello, world!"'), ("a loop", 'for i in 1 2 3; do\n    echo "$i"\ndone')),
    *code("JavaScript", ["JavaScript", "javascript"], ("hello", 'console.log("Hello, world!");'), ("a loop", "for (let i = 0; i < 10; i++) {\n  console.log(i);\n}"), ("a function that adds two numbers", "function add(a, b) {\n  return a + b;\n}")),
    *code("Rust", ["Rust"], ("hello", 'fn main() {\n    println!("Hello, world!");\n}')),
    *code("Go", ["Go"], ("hello", 'package main\n\nimport "fmt"\n\nfunc main() {\n    fmt.Println("Hello, world!")\n}')),
    *code("HTML", ["HTML"], ("hello", "<h1>Hello, world!</h1>")),
    (["Write hello world", "hello world program", "Show me some code", "Write some code", "Show me a program", "Can you show me code?", "Show me an example of code", "Write code", "Write a hello world program"], "Python", 'print("Hello, world!")'),
]

// Initial values of the fields, in the language of the page.
import { language } from "./strings.js";

const EXAMPLES = {
  generate: ["The old house at the end of the street", "在古代，人们"],
  fill: [
    { text: "She put the money in the bank.", word: "bank" },
    { text: "他把钱存进了银行。", word: "银行" },
  ],
  senses: [
    {
      word: "bank",
      texts: "She put all her money in the bank.\nThe bank lends money to small companies.\nHe works at a bank in the city.\n\n"
        + "They sat on the bank of the river.\nThe boat drifted to the opposite bank.\nTrees grow along the bank of the stream.",
    },
    {
      word: "苹果",
      texts: "我每天早上吃一个苹果。\n这棵树上的苹果熟了。\n妈妈买了两斤苹果和一些梨。\n\n"
        + "苹果公司发布了新的手机。\n他在苹果公司担任工程师。\n苹果的股票昨天上涨了。",
    },
  ],
  attention: ["The animal did not cross the street because it was too tired.", "小猫没有过马路，因为它太累了。"],
  classify: ["A warm, funny and thoroughly enjoyable film.", "这部电影温暖有趣，非常好看。"],
  tag: ["Marie Curie was born in Warsaw and worked in Paris.", "居里夫人生于华沙，后来在巴黎工作。"],
  pair: [
    ["A man is playing a guitar.", "Somebody is making music."],
    ["一个男人在弹吉他。", "有人在演奏音乐。"],
  ],
  similarity: [
    ["The bank of the river was steep.", "The river bank was very steep."],
    ["河岸很陡。", "这条河的岸边非常陡峭。"],
  ],
  answer: [
    { question: "Where was she born?", passage: "Marie Curie was born in Warsaw in 1867. She moved to Paris to study, and twice won a Nobel Prize." },
    { question: "她出生在哪里？", passage: "居里夫人 1867 年生于华沙，后赴巴黎求学，曾两次获得诺贝尔奖。" },
  ],
  choose: [
    { context: "He opened the umbrella because", choices: "it began to rain.\nthe soup was cold.\nhe had won the race." },
    { context: "他撑开了雨伞，因为", choices: "外面下雨了。\n汤已经凉了。\n他赢了比赛。" },
  ],
  translate: ["Two dogs are playing in the snow.", "Two dogs are playing in the snow."],
  score: ["The old man the boats.", "他昨天去了银行。"],
  neighbours: ["river", "学校"],
  analogy: [
    ["man", "king", "woman"],
    ["男人", "国王", "女人"],
  ],
};

export function example(name) {
  return EXAMPLES[name][language() === "zh" ? 1 : 0];
}

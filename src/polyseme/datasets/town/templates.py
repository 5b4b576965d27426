"""Words and sentence templates of the town, in English and Chinese.

English and Chinese lines alternate. `{A}` is a person and `{place}` a randomly chosen place; `[bank|river]` marks the
sense of a word, and labels in upper case mark names: `[Monday|TIME]`. Lines that start with `!` apply to adults only.
"""

# ruff: noqa: E501 (a row of a table is a line)

MEN = """
Adam 亚当, Ben 本, Carl 卡尔, David 大卫, Edgar 埃德加, Frank 弗兰克, George 乔治, Henry 亨利, Ivan 伊万, Jack 杰克,
Leo 利奥, Max 马克斯, Noah 诺亚, Oscar 奥斯卡, Peter 彼得, Ralph 拉尔夫, Simon 西蒙, Tom 汤姆, Victor 维克多, Walter 沃尔特"""
WOMEN = """
Alice 爱丽丝, Bella 贝拉, Clara 克拉拉, Diana 黛安娜, Emma 艾玛, Flora 弗洛拉, Grace 格蕾丝, Helen 海伦, Irene 艾琳, Julia 朱莉娅,
Kate 凯特, Laura 劳拉, Mary 玛丽, Nora 诺拉, Olive 奥莉芙, Paula 葆拉, Rosa 罗莎, Sophie 苏菲, Tina 蒂娜, Vera 薇拉"""
CHINESE_MEN = """
Jianguo 建国, Zhiqiang 志强, Haoran 浩然, Mingyuan 明远, Wenbo 文博, Tianyu 天宇, Yifan 一帆, Guodong 国栋, Zihan 子涵, Junjie 俊杰,
Yaowen 耀文, Shaohua 少华, Dawei 大伟, Xiaofeng 晓峰, Zhenhai 振海, Chengye 成业, Siyuan 思远, Yongsheng 永生, Kaixuan 凯旋, Bowen 博文"""
CHINESE_WOMEN = """
Xiuying 秀英, Lihua 丽华, Meiling 美玲, Xiaoyu 晓雨, Yating 雅婷, Shufen 淑芬, Jingyi 静怡, Ruolan 若兰, Chunmei 春梅, Qiuyue 秋月,
Yuting 玉婷, Wanqing 婉清, Siqi 思琪, Huilan 慧兰, Fangfang 芳芳, Guiying 桂英, Xuemei 雪梅, Yilin 依林, Zhenzhen 珍珍, Lanxin 兰心"""
SURNAMES = "Reed 里德, Baxter 巴克斯特, Hill 希尔, Carter 卡特, Morgan 摩根, Novak 诺瓦克, Palmer 帕尔默, Stone 斯通"
CHINESE_SURNAMES = """
Lin 林, Zhou 周, Chen 陈, Wang 王, Liu 刘, Zhao 赵, Xu 徐, Sun 孙, Ma 马, Guo 郭, Hu 胡, Luo 罗, Tang 唐, Song 宋, Deng 邓, Xie 谢"""

TOWNS = "Millbrook 磨溪镇, Ashford 白蜡镇, Willowby 柳湾镇, Stonebridge 石桥镇, Larkfield 云雀镇"
RIVERS = "Silver River 银河, Otter River 水獭河, Reed River 芦河, Grey River 灰河"
HILLS = "Fox Hill 狐山, Windy Hill 风山, Pine Hill 松山, Lantern Hill 灯笼山"
STREETS = "Mill Street 磨坊街, Garden Street 花园街, Long Street 长街, Bridge Street 桥头街, Church Street 教堂街, Harbour Street 码头街"

PLACES = """
bank 银行, bakery 面包店, library 图书馆, school 学校, hospital 医院, railway station 火车站, post office 邮局, theatre 剧院,
museum 博物馆, town hall 镇政府, market 市场, restaurant 餐馆, bookshop 书店, garage 修车行, flower shop 花店, pharmacy 药店,
fire station 消防站, police station 警察局, hotel 旅馆, tea house 茶馆, stadium 体育场, swimming pool 游泳馆, cinema 电影院, zoo 动物园"""

JOBS = """
baker 面包师 | bakery | baked {n} trays of bread before the customers came | 赶在顾客上门以前烤了{n}盘面包
teacher 老师 | school | taught {n} pupils how to read a map | 教{n}个学生看地图
doctor 医生 | hospital | listened to the hearts of {n} patients | 给{n}个病人听了心跳
nurse 护士 | hospital | changed the bandages of {n} patients | 给{n}个病人换了绷带
librarian 图书管理员 | library | put {n} piles of books back on the shelves | 把{n}摞书放回了书架
clerk 职员 | bank | counted money behind the glass window | 在玻璃窗后面数钱
driver 司机 | railway station | drove {n} travellers to the hotel | 把{n}位旅客送到了旅馆
courier 邮递员 | post office | carried {n} heavy parcels up the stairs | 把{n}个沉重的包裹搬上了楼
actor 演员 | theatre | learned a long part by heart | 背熟了一段很长的台词
guard 警卫 | museum | told {n} visitors not to touch the paintings | 提醒{n}位参观者不要碰画
mayor 镇长 | town hall | answered questions about the new bridge | 回答了关于新桥的问题
farmer 农民 | market | sold {n} baskets of vegetables | 卖掉了{n}筐蔬菜
cook 厨师 | restaurant | cooked soup for {n} hungry guests | 给{n}位饥饿的客人煮了汤
cashier 收银员 | restaurant | took the money of {n} guests | 收了{n}位客人的钱
bookseller 书商 | bookshop | packed {n} old books in brown paper | 用牛皮纸包好了{n}本旧书
mechanic 修理工 | garage | changed the wheels of {n} cars | 给{n}辆汽车换了轮胎
florist 花匠 | flower shop | tied {n} bunches of roses for a wedding | 为一场婚礼扎了{n}束玫瑰
pharmacist 药剂师 | pharmacy | mixed {n} bottles of cough medicine | 配了{n}瓶止咳药水
firefighter 消防员 | fire station | washed the big red engine | 清洗了红色的大消防车
officer 警察 | police station | helped {n} lost children find their parents | 帮{n}个迷路的孩子找到了父母
porter 行李员 | hotel | carried {n} suitcases to the second floor | 把{n}个箱子搬到了二楼
keeper 饲养员 | zoo | fed {n} hungry monkeys | 喂了{n}只饥饿的猴子
coach 教练 | stadium | trained {n} young runners | 训练了{n}名年轻的跑步选手
"""

FOODS = """
apple apples [苹果|fruit] 个, pear pears 梨 个, orange oranges 橙子 个, egg eggs 鸡蛋 个, bun buns 包子 个, dumpling dumplings 饺子 个,
pancake pancakes 煎饼 张, tomato tomatoes 西红柿 个, onion onions 洋葱 个, peach peaches 桃子 个, carrot carrots 胡萝卜 根,
biscuit biscuits 饼干 块, sandwich sandwiches 三明治 个, sausage sausages 香肠 根, potato potatoes 土豆 个"""
ANIMALS = """
horse horses 马 匹, goat goats 山羊 只, duck ducks 鸭子 只, hen hens 母鸡 只, squirrel squirrels 松鼠 只, fox foxes 狐狸 只,
frog frogs 青蛙 只, owl owls 猫头鹰 只, hedgehog hedgehogs 刺猬 只, swan swans 天鹅 只, deer deer 鹿 头"""
PETS = """
cat cats 猫 只, dog dogs 狗 条, rabbit rabbits 兔子 只, parrot parrots 鹦鹉 只, goldfish goldfish 金鱼 条, tortoise tortoises 乌龟 只,
hamster hamsters 仓鼠 只, canary canaries 金丝雀 只"""
THINGS = """
bicycle bicycles 自行车 辆, umbrella umbrellas 雨伞 把, hat hats 帽子 顶, scarf scarves 围巾 条, coat coats 大衣 件, bag bags 背包 个,
kite kites 风筝 只, guitar guitars 吉他 把, camera cameras 照相机 台, cup cups 杯子 个, lamp lamps 台灯 盏, notebook notebooks 笔记本 本"""
TOOLS = """
hammer hammers 锤子 把, saw saws 锯子 把, ladder ladders 梯子 架, brush brushes 刷子 把, rope ropes 绳子 根, bucket buckets 水桶 个,
screwdriver screwdrivers 螺丝刀 把, axe axes 斧头 把, shovel shovels 铲子 把"""
COLOURS = "red 红色, blue 蓝色, green 绿色, yellow 黄色, white 白色, black 黑色, brown 棕色, orange 橙色, purple 紫色, grey 灰色"
HOBBIES = """
playing chess: 下棋, painting pictures: 画画, singing songs: 唱歌, reading novels: 看小说, growing vegetables: 种菜, riding horses: 骑马,
cooking soup: 煮汤, knitting socks: 织袜子, taking photographs: 拍照, flying kites: 放风筝, collecting stamps: 集邮, playing the piano: 弹钢琴,
writing poems: 写诗, climbing hills: 爬山, watching films: 看电影"""
MANNERS = """
quietly 悄悄地, slowly 慢慢地, carefully 小心地, happily 高兴地, patiently 耐心地, proudly 自豪地, quickly 很快地, gently 轻轻地"""

NUMBERS = "two 两, three 三, four 四, five 五, six 六, seven 七, eight 八, nine 九"
SMALL_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"""
WEEKDAYS = (
    "Monday 星期一, Tuesday 星期二, Wednesday 星期三, Thursday 星期四, Friday 星期五, Saturday 星期六, Sunday 星期日"
)
MONTHS = """
January 一月, February 二月, March 三月, April 四月, May 五月, June 六月, July 七月, August 八月, September 九月, October 十月,
November 十一月, December 十二月"""
PARTS_OF_DAY = "morning 早上, afternoon 下午, evening 晚上"
# English entries complete "It was ...".
WEATHER = {
    "winter": "snowing: 下着雪, freezing: 天寒地冻, cloudy: 天阴着, windy: 刮着风, foggy: 有雾",
    "spring": "raining: 下着雨, sunny: 阳光明媚, windy: 刮着风, mild: 天气温和, cloudy: 天阴着",
    "summer": "hot: 天气很热, sunny: 阳光明媚, raining: 下着雨, cloudy: 天阴着, dry: 天气干燥",
    "autumn": "raining: 下着雨, foggy: 有雾, cool: 天气凉爽, windy: 刮着风, cloudy: 天阴着",
}

SCENES = {
    "nature": """
{A} sat on the grassy [bank|river] and watched the water of {river} go by
{A}坐在长满草的岸边，看着{river}的水流过
{A} fished from the muddy [bank|river] of {river} and caught {n} small fish
{A}在{river}泥泞的岸边钓鱼，钓到了{n}条小鱼
{A} and {B} tied a boat to the [bank|river] and counted {animal.some} across the water
{A}和{B}把小船拴在岸边，数着对岸的{animal.some}
{A} found a cave in {hill}, where a [bat|animal] was hanging from the roof
{A}在{hill}发现了一个山洞，洞顶上倒挂着一只蝙蝠
{A} explained to {B} that a [bat|animal] sees with its ears
{A}向{B}解释说，蝙蝠用耳朵来看东西
{A} was frightened when a [bat|animal] flew out of the barn with beating wings
一只蝙蝠拍着翅膀从谷仓里飞出来，把{A}吓了一跳
{A} told {B} that [spring|season] was the best time of the year for a walk up {hill}
{A}告诉{B}，春天是一年里去{hill}散步的最好时候
{A} remembered the wet [spring|season] in which {river} flooded the gardens
{A}想起那个多雨的春天，{river}的水淹没了花园
{A} dried the seeds of the {colour} tulips and kept them for next [spring|season]
{A}把{colour}郁金香的种子晒干，留到明年春天再种
{A} drank from the cold [spring|water] at the foot of {hill}
{A}在{hill}脚下喝了冰凉的泉水
{A} and {B} filled {n} bottles at the [spring|water] in the woods
{A}和{B}在树林里的泉边灌满了{n}个瓶子
{A} stopped to rest where clear water bubbled out of the [spring|water]
{A}在清水冒出来的泉眼旁边停下来休息
{A} ran a finger over the rough [bark|tree] of an old oak
{A}用手指抚摸一棵老橡树粗糙的树皮
{A} saw a beetle creep under the [bark|tree] of a pine
{A}看见一只甲虫钻进了松树的树皮里
hungry deer had eaten the [bark|tree] off the young trees, so {A} wrapped them in cloth
饥饿的鹿啃掉了小树的树皮，于是{A}用布把树包了起来
{A} watched a white [crane|bird] stand on one leg in the shallow water
{A}看着一只白鹤用一条腿站在浅水里
{A} took a photograph as a [crane|bird] spread its wings over the lake
一只鹤在湖面上展开翅膀，{A}拍下了照片
{A} and {B} found the nest of a [crane|bird] among the reeds
{A}和{B}在芦苇丛里找到了一个鹤窝
{A} hid behind the thick [trunk|tree] of an oak and looked at {animal.a}
{A}躲在粗大的橡树树干后面，看着一{animal.unit}{animal}
a woodpecker knocked on the hollow [trunk|tree] above {A}
一只啄木鸟在{A}头顶上敲着空心的树干
{A} and {B} joined hands around the [trunk|tree] of the oldest tree on {hill}
{A}和{B}手拉手围住了{hill}上最老的那棵树的树干
{A} sat under a [palm|tree] in the glasshouse, among ferns and vines
{A}坐在温室的棕榈树下，周围是蕨草和藤蔓
{A} learned that a [palm|tree] has no branches, only leaves at the top
{A}了解到棕榈树没有树枝，只在顶上长叶子
{A} heard a cuckoo call {n} times in the woods
{A}听见一只[杜鹃|bird]在树林里叫了{n}声
{A} explained that the cuckoo lays its eggs in the nests of others
{A}解释说，[杜鹃|bird]把蛋下在别的鸟的窝里
a grey cuckoo flew over {hill}, and {A} looked up
一只灰色的[杜鹃|bird]飞过{hill}，{A}抬起头来看
{A} planted a row of {colour} azaleas along the path
{A}沿着小路种了一排{colour}的[杜鹃|flower]
{A} drew a leaf of the azalea beside its petals
{A}把[杜鹃|flower]的叶子和花瓣画在一起
the bees hummed around the flower that {A} was drawing
蜜蜂围着{A}正在画的那朵[花|flower]嗡嗡叫
{A} followed the tracks of {animal.a} through the woods
{A}在树林里跟着一{animal.unit}{animal}的脚印走
{A} and {B} saw {animal.some} drinking at the edge of the lake
{A}和{B}看见{animal.some}在湖边喝水""",
    "sport": """
{A} swung the wooden [bat|club] and hit the ball over the fence
{A}挥动木球棒，把球打过了围栏
{A} bought a new [bat|club] and a pair of gloves for the team
{A}给球队买了一根新球棒和一副手套
{A} lent {B} a [bat|club], because {B.his} own was broken
{B}的球棒断了，{A}就借给{B.him}一根
{A} won the tennis [match|game] against {B} in {n} sets
{A}和{B}比赛网球，打了{n}盘，{A}赢了
{A} and {B} watched the [match|game] from the front row of the stadium
{A}和{B}坐在体育场第一排看比赛
the referee stopped the [match|game] because {A} had hurt {A.his} knee
因为{A}伤了膝盖，裁判停下了比赛
!{A} climbed into the [ring|boxing] and put on the {colour} gloves
{A}走上拳击台，戴上了{colour}的手套
!the crowd cheered when {A} left the [ring|boxing] after {n} rounds
打完{n}个回合，{A}走下拳击台，观众欢呼起来
!{A} fell against the ropes of the [ring|boxing] and got up again
{A}摔在拳击台的围绳上，又站了起来
{A} ran faster than {B}, because {A.his} new shoes were very [light|weight]
{A}比{B}跑得快，因为{A.his}新鞋很轻
{A} chose a [light|weight] racket that was easy to carry
{A}挑了一只容易携带的轻球拍
{A} wiped the sweat from the [palm|hand] of one hand and threw the ball to {B}
{A}擦掉手掌上的汗，把球扔给了{B}
{A} caught the ball with {A.his} bare [palm|hand]
{A}光着手掌接住了球
{A} and {B} played basketball for {n} hours
{A}和{B}[打|play]了{n}个小时篮球
{A} learned to play table tennis from {B}
{A}跟{B}学[打|play]乒乓球
{A} wanted to play badminton, but nobody had a net
{A}想[打|play]羽毛球，可是谁也没有球网
the running club asked so little of new members that {A} could join at once
跑步俱乐部的[门槛|requirement]很低，{A}一下子就加入了
{A} was so proud of {A.self} that {A.he} told everyone about the {n} goals
{A}为自己进了{n}个球感到自豪，逢人就说
{A} swam {n} lengths of the pool without a rest
{A}一口气游了{n}个来回
{A} and {B} raced each other to the top of {hill}
{A}和{B}比赛谁先跑到{hill}山顶
{A} scored {n} points, and {B} scored the last one
{A}得了{n}分，最后一分是{B}得的
{A} kicked the ball so hard that it landed behind {place}
{A}一脚把球踢到了{place}后面
{A} talked with {B} about the lost game, and a burden dropped away
{A}跟{B}谈了那场输掉的球赛，放下了心里的[包袱|burden]""",
    "money": """
!{A} opened an account at the [bank|money] and paid in {n} hundred dollars
{A}在银行开了一个账户，存了{n}百元
!{A} asked the [bank|money] for a loan to repair the roof
{A}向银行申请贷款来修屋顶
!the [bank|money] sent {A} a card with {n} wrong numbers on it
银行寄给{A}一张卡，上面有{n}个数字印错了
{A} put {n} coins in a jar and took the jar to the [bank|money]
{A}把{n}枚硬币放进罐子，带到银行去
!{A} sold a gold [ring|jewel] to pay for the journey
{A}卖掉一枚金戒指来付路费
!{A} bought a [ring|jewel] with {colour.a} stone for the wedding
{A}为婚礼买了一枚镶着{colour}宝石的戒指
{A} found a lost [ring|jewel] on the floor and gave it back to {B}
{A}在地上捡到一枚丢失的戒指，还给了{B}
{A} left a [note|message] for {B} about the {n} dollars that were missing
关于不见了的{n}元钱，{A}给{B}留了一张字条
!{A} received a [letter|mail] from the tax office
{A}收到了税务局寄来的一封信
{A} spent too much money at the market
{A}在市场上[花|spend]了太多钱
{A} spent {n} dollars on {food.many} and had nothing left
{A}买{food}[花|spend]了{n}元钱，一分也没剩
{A} promised {B} to spend less and save more
{A}答应{B}少[花|spend]一点，多存一点
!{A} read that Apple had sold a million telephones
{A}读到消息说，[苹果|company]卖出了一百万部手机
!Apple opened a shop near {place}, and {A} bought a computer there
[苹果|company]在{place}附近开了一家店，{A}在那里买了一台电脑
!{A} lost money when the shares of Apple fell
[苹果|company]的股票跌了，{A}亏了钱
!the bank asked for less than before, so {A} could borrow money
银行降低了贷款的[门槛|requirement]，{A}借到了钱
!the fee was so high that {A} could not meet the conditions for the savings plan
费用太高，{A}够不上储蓄计划的[门槛|requirement]
!{A} paid back an old debt and was rid of a burden
{A}还清了旧债，甩掉了一个[包袱|burden]
{A} paid for {food.some} and counted the change twice
{A}付钱买了{food.some}，把找回的零钱数了两遍
{A} borrowed {n} dollars from {B} and promised to pay them back
{A}向{B}借了{n}元钱，答应一定还
{A} sold {food.some} to {B} at a good price
{A}把{food.some}卖给了{B}，价钱很公道
{A} hid {n} coins in a box and told only {B}
{A}把{n}枚硬币藏在盒子里，只告诉了{B}""",
    "home": """
{A} turned on the [light|lamp] in the kitchen and looked for the {tool}
{A}打开厨房的灯，找那{tool.unit}{tool}
{A} could not sleep, because the [light|lamp] in the hall was on
走廊的灯亮着，{A}睡不着
{A} changed the broken [light|lamp] above the stairs
{A}换掉了楼梯上面坏了的灯
the dogs in the yard began to [bark|dog] when {A} came home
{A}回家的时候，院子里的狗叫了起来
{A} was woken by the [bark|dog] of a big dog next door
{A}被隔壁大狗的叫声吵醒了
{A} told {B} that a dog may [bark|dog] and still be friendly
{A}告诉{B}，会叫的狗也可能很友好
!{A} struck a [match|fire] and lit the stove
{A}划了一根火柴，点着了炉子
!the last [match|fire] in the box was wet, so {A} could not light the candle
盒子里最后一根火柴湿了，{A}点不着蜡烛
!{A} burned a finger on a [match|fire] and held it under cold water
{A}被火柴烫了手指，赶紧放到凉水下面冲
a [mouse|animal] ran across the kitchen floor, and {A} jumped onto a chair
一只老鼠跑过厨房的地板，{A}跳到了椅子上
{A} set a trap for the [mouse|animal] that had eaten the cheese
{A}放了一个夹子，要捉那只偷吃奶酪的老鼠
the cat carried a [mouse|animal] in its teeth and laid it before {A}
猫叼来一只老鼠，放在{A}面前
{A} cut a [nail|finger] too short and hurt {A.self}
{A}把指甲剪得太短，弄伤了自己
{A} broke a [nail|finger] while washing {n} pots
{A}洗{n}口锅的时候弄断了指甲
{A} painted every [nail|finger] on {A.his} left hand {colour}
{A}把左手的指甲都涂成了{colour}
{A} heard the telephone [ring|sound] {n} times
{A}听见电话响了{n}次
{A} waited for the doorbell to [ring|sound], but nobody came
{A}等着门铃响，可是谁也没来
{A} held a ladybird in the [palm|hand] of {A.his} hand and showed it to {B}
{A}把一只瓢虫放在手掌里给{B}看
{A} wrote a long [letter|mail] to {B} and put it in an envelope
{A}给{B}写了一封长信，装进了信封
{A} taught {B} to write the first [letter|alphabet] of {B.his} name
{A}教{B}写名字的第一个字母
{A} put {food.some} in a basket and covered them with a cloth
{A}把{food.some}放进篮子，盖上一块布
{A} told {B} not to turn one mistake into a burden
{A}劝{B}不要把一次失误变成[包袱|burden]
{A} put a bunch of fresh flowers on the table
{A}在桌上摆了一束新鲜的[花|flower]
{A} gave {B} a flower and a cup of tea
{A}送给{B}一朵[花|flower]，还端来一杯茶
{A} watered the azaleas in the flowerpot by the window
{A}给窗边花盆里的[杜鹃|flower]浇了水
{A} made a phone call to {B} and talked for a long time
{A}给{B}[打|phone]了电话，说了很久
{A} was too busy to call {B} back
{A}太忙了，没有给{B}[打|phone]回去
{A} said that nobody should ever hit a child
{A}说，谁也不应该[打|hit]孩子
{A} swept the floor and tripped over the threshold
{A}扫地的时候被[门槛|threshold]绊了一下
the cat sat on the threshold and waited for {A}
猫坐在[门槛|threshold]上等{A}
{A} lit the fire in the stove and boiled the water
{A}把炉子里的[火|fire]点着，烧了水
{A} tied old clothes into a bundle and put it in the cupboard
{A}把旧衣服打成一个[包袱|bundle]，放进了柜子
{A} peeled an apple for {B} with a small knife
{A}用小刀给{B}削了一个[苹果|fruit]
{A} baked a cake with apples and invited {B}
{A}用[苹果|fruit]烤了一个蛋糕，请{B}来吃
{A} shared {food.a} with {B}
{A}和{B}分着吃了一{food.unit}{food}
{A} ate {food.some} and was still hungry
{A}吃了{food.some}，还是觉得饿""",
    "workshop": """
the [spring|coil] of the old clock was broken, and {A} put in a new one
旧钟的发条断了，{A}换了一根新的
{A} pressed the steel [spring|coil] back into the lock
{A}把钢弹簧压回锁里
a rusty [spring|coil] jumped out of the chair when {A} took off the cover
{A}一拿下椅套，一根生锈的弹簧就跳了出来
!{A} watched the [crane|machine] lift {n} steel beams over {place}
{A}看着起重机把{n}根钢梁吊过{place}
!the driver of the [crane|machine] waved to {A} from the building site
起重机司机在工地上向{A}挥手
!{A} moved the stones with a [crane|machine] because they were too heavy
石头太重，{A}用起重机来搬
{A} plugged a new [mouse|computer] into the computer
{A}给电脑插上了一个新鼠标
{A} clicked with the [mouse|computer] {n} times, but the screen stayed dark
{A}点了{n}下鼠标，屏幕还是黑的
{A} put the keyboard and the [mouse|computer] into a drawer
{A}把键盘和鼠标放进了抽屉
{A} drove a [nail|metal] into the board with {tool.a}
{A}用一{tool.unit}{tool}把钉子敲进了木板
{A} stepped on a rusty [nail|metal] and hurt {A.his} foot
{A}踩到一根生锈的钉子，伤了脚
{A} hung the picture on a [nail|metal] above the bench
{A}把画挂在工作台上面的钉子上
{A} carried the ladder alone, since it was quite [light|weight]
梯子很轻，{A}一个人就搬走了
{A} painted each [letter|alphabet] of the shop sign {colour}
{A}把店牌上的每个字母都涂成{colour}
{A} carved the [letter|alphabet] A into the handle of the {tool}
{A}在那{tool.unit}{tool}的把手上刻了字母A
!{A} checked the gauges on the machine and wrote down {n} numbers
{A}检查了机器上的[仪表|instrument]，记下了{n}个数字
!{A} cleaned the gauge of the boiler with a cloth
{A}用布擦干净了锅炉的[仪表|instrument]
!the gauge in the car was broken, so {A} repaired it
车里的[仪表|instrument]坏了，{A}把它修好了
!{A} kept the fire in the forge burning {manner}
{A}{manner}照看着打铁炉里的[火|fire]
!sparks flew from the fire while {A} bent the iron
{A}把铁烧弯的时候，[火|fire]里迸出了火星
!{A} hit the iron with a heavy hammer
{A}用一把沉重的锤子[打|hit]铁
{A} was angry with the machine and hit it with one fist
{A}生机器的气，用拳头[打|hit]了它一下
{A} carried {A.his} tools in a cloth bundle
{A}把工具装在布[包袱|bundle]里背着
{A} lowered the wooden threshold so that the cart could pass
{A}把木[门槛|threshold]锯低，好让小车通过
{A} borrowed {tool.a} from {B} and gave it back clean
{A}向{B}借了一{tool.unit}{tool}，擦干净以后还了回去
{A} held the board while {B} painted it {colour}
{A}扶着木板，让{B}把它漆成{colour}
{A} cleaned {tool.some} with oil and a rag
{A}用油和抹布擦干净了{tool.some}
{A} asked {B} for {tool.a} and a box of screws
{A}向{B}要了一{tool.unit}{tool}和一盒螺丝
{A} showed {B} how to sharpen a knife on a wet stone
{A}教{B}怎样在湿石头上磨刀
{A} and {B} built {n} shelves out of old boards
{A}和{B}用旧木板做了{n}个架子""",
    "stage": """
{A} sang the highest [note|music] of the song without a mistake
{A}一点不错地唱出了歌里最高的那个音
{A} played one wrong [note|music] on the piano, but only {B} heard it
{A}在钢琴上弹错了一个音，只有{B}听出来了
{A} held the last [note|music] so long that the audience began to clap
{A}把最后一个音拉得很长，观众鼓起掌来
{A} found a [note|message] from {B} pinned to the curtain
{A}发现幕布上别着{B}留下的字条
{A} read the [note|message] {manner} and put it in a pocket
{A}{manner}看了字条，把它放进了口袋
{A} aimed the bright [light|lamp] at the singer on the stage
{A}把明亮的灯对准了台上的歌手
{A} forgot every [letter|alphabet] of the new word during the play
演戏的时候，{A}把新词的每个字母都忘了
{A} told a comic story, and everyone laughed at the joke in it
{A}说了一段相声，大家都被里面的[包袱|joke]逗笑了
{A} practised the joke {n} times before going on stage
{A}上台以前把那个[包袱|joke]练了{n}遍
{B} did not understand the punch line, so {A} explained it
{B}没听懂那个[包袱|joke]，{A}给{B.him}解释了一遍
{A} combed {A.his} hair, because a good appearance mattered on stage
{A}梳了梳头，因为上台要注意[仪表|appearance]
{A} told {B} to mind {B.his} appearance during the speech
{A}提醒{B}演讲的时候注意[仪表|appearance]
the teacher of dance praised the neat appearance of {A}
舞蹈老师夸{A}[仪表|appearance]端庄
the song that {A} had written became very popular
{A}写的那首歌非常[火|popular]
the new film was so popular that {A} could not get a ticket
新电影太[火|popular]了，{A}买不到票
{A} asked {B} why the old dance was popular again
{A}问{B}，老舞蹈为什么又[火|popular]了
the curtain rose, and {A} walked onto the stage {manner}
幕布升起，{A}{manner}走上了台
{A} and {B} acted the parts of {animal.a} and a king
{A}和{B}一个演{animal}，一个演国王
{A} wore {colour.a} costume and a paper crown
{A}穿着{colour}的戏服，戴着纸做的王冠
the audience threw flowers when {A} took a bow
{A}鞠躬的时候，观众扔来了[花|flower]
{A} heard the bell [ring|sound] and ran onto the stage
{A}听见铃响，跑上了台
{A} played the drum and {B} played the violin
{A}敲鼓，{B}拉小提琴""",
    "travel": """
{A} packed {n} shirts into the old [trunk|case] and closed the lid
{A}把{n}件衬衫装进旧箱子，盖上了盖子
{A} lost the key of the [trunk|case] at the railway station
{A}在火车站丢了箱子的钥匙
{A} and {B} carried the heavy [trunk|case] to the train
{A}和{B}把沉重的箱子抬上了火车
{A} packed only a [light|weight] bag for the journey
{A}为这次旅行只带了一个很轻的包
{A} photographed a [palm|tree] in front of the hotel
{A}在旅馆前面拍了一棵棕榈树
{A} sent {B} a [letter|mail] with {n} foreign stamps
{A}给{B}寄了一封信，贴着{n}张外国邮票
{A} wrote to {B} that the [spring|water] in the mountains was famous
{A}写信告诉{B}，山里的泉水很有名
{A} rowed from one [bank|river] to the other in a small boat
{A}划着小船从河的这一岸到了那一岸
{A} left home with a bundle on {A.his} back
{A}背着[包袱|bundle]出了门
{A} stepped over the high threshold of the old temple
{A}跨过了古庙高高的[门槛|threshold]
!{A} stopped the car because the fuel gauge showed nothing
油量[仪表|instrument]不动了，{A}停下了车
{A} telephoned {B} from the platform before the train left
火车开动以前，{A}在站台上给{B}[打|phone]了电话
{A} bought a ticket at the railway station and waited for {n} hours
{A}在火车站买了票，等了{n}个小时
{A} bought an apple at the railway station and ate it on the train
{A}在火车站买了一个[苹果|fruit]，在火车上吃了
{A} took {food.a} out of a basket and ate it {manner}
{A}从篮子里拿出一{food.unit}{food}，{manner}吃了
{A} missed the bus and walked all the way to {place}
{A}没赶上公共汽车，一路走到了{place}
{A} and {B} crossed {river} on the new bridge
{A}和{B}从新桥上过了{river}
{A} looked at the map and found a shorter way to {hill}
{A}看了看地图，找到了去{hill}的近路
{A} asked {B} whether the train to the city was late
{A}问{B}，去城里的火车是不是晚点了
{A} met {B} in front of {place} and showed {B.him} {n} photographs
{A}在{place}门口遇到{B}，给{B.him}看了{n}张照片
{A} ate {food.some} on the train and fell asleep
{A}在火车上吃了{food.some}，睡着了""",
}

# Sentences around a scene; {C} is somebody who was absent.
FRAMES = """
{when}, {scene}
{when}，{scene}
{scene} {when}
{when}{scene}
{C} said that {when_inside}{scene}
{C}说，{when}{scene}
it was {weather} {when} when {scene}
{when}{weather}，{scene}
everyone in {town} knew that {when_inside}{scene}
{town}的人都知道，{when}{scene}
{scene}
{scene}"""

OPENINGS = """
It was {date}, and it was {weather} in {town}.
那是{date}，{town}{weather}。
{date} began early in {town}, although it was {weather}.
{date}，虽然{weather}，{town}的人还是起得很早。
This is what happened in {town} on {date}.
这是{date}在{town}发生的事。
In {town}, where {river} runs past {hill}, it was {weather} on {date}.
{river}从{hill}旁边流过{town}，{date}，镇上{weather}。
The people of {street} still remember {date}.
{street}的人还记得{date}。
On {date}, when it was {weather}, much was going on in {town}.
{date}{weather}，{town}有不少事情。"""
CLOSINGS = """
Then {A} went home and told {A.his} family everything.
后来{A}回到家里，把事情都告诉了家人。
Nobody in {town} went to bed early that night.
那天夜里，{town}没有人早睡。
At the end of the day, {A} was tired but content.
一天结束的时候，{A}又累又满足。
{A} wrote it all down so that {A.he} would not forget it.
{A}把这些都记了下来，免得忘记。
Soon it was quiet in {town}, and only {river} could be heard.
不久{town}安静下来，只听得见{river}的水声。
{A} and {B} agreed to meet again the next day.
{A}和{B}约好第二天再见面。
When the lamps in {street} went out, {A} was already asleep.
{street}的路灯熄灭的时候，{A}已经睡着了。
On the way home through {street}, {A} hummed a song.
{A}穿过{street}回家，一路哼着歌。
The next morning, all of {street} was talking about {A} and {B}.
第二天早上，{street}的人都在谈论{A}和{B}。
{A} thought about {B} and smiled.
{A}想到{B}，笑了。"""

# For each kind of fact four equivalent statements in each language; then denial, question and answer in each language.
FACTS = {
    "job": """
{A} is {x.a}. | {A} works as {x.a}. | {A} earns {A.his} living as {x.a}. | By trade {A} is {x.a}.
{A}是{x}。 | {A}的职业是{x}。 | {A}靠当{x}谋生。 | {A}的工作是当{x}。
{A} is not {x.a}. | What is {A}'s job? | {x}
{A}不是{x}。 | {A}做什么工作？ | {x}""",
    "workplace": """
{A} works at the {x}. | {A} goes to work at the {x} every weekday. | {A}'s place of work is the {x}. | You can find {A} at work in the {x}.
{A}在{x}工作。 | {A}平日都到{x}上班。 | {A}的工作地点是{x}。 | {A}上班的地方是{x}。
{A} does not work at the {x}. | Where does {A} work? | {x}
{A}不在{x}工作。 | {A}在哪里工作？ | {x}""",
    "age": """
{A} is {x} years old. | {A} has reached the age of {x}. | {A} was born {x} years ago. | {A}'s age is {x}.
{A}今年{x}岁。 | {A}已经{x}岁了。 | {A}的年纪是{x}岁。 | {A}出生在{x}年前。
{A} is not {x} years old. | How old is {A}? | {x}
{A}不是{x}岁。 | {A}多大年纪？ | {x}""",
    "home": """
{A} lives in {x}. | {A}'s home is in {x}. | {A} has a house in {x}. | The house of {A} stands in {x}.
{A}住在{x}。 | {A}的家在{x}。 | {A}家的房子在{x}。 | {A}家就在{x}上。
{A} does not live in {x}. | In which street does {A} live? | {x}
{A}不住在{x}。 | {A}住在哪条街？ | {x}""",
    "colour": """
{A}'s {A.thing} is {x}. | {A} has {x.a} {A.thing}. | {A} owns {A.thing.a}, and it is {x}. | The {A.thing} that belongs to {A} is {x}.
{A}的{A.thing}是{x}的。 | {A}有一{A.thing.unit}{x}的{A.thing}。 | {A}那{A.thing.unit}{A.thing}是{x}的。 | {A}的{A.thing}，颜色是{x}。
{A}'s {A.thing} is not {x}. | What colour is {A}'s {A.thing}? | {x}
{A}的{A.thing}不是{x}的。 | {A}的{A.thing}是什么颜色的？ | {x}""",
    "pet": """
{A}'s pet is {x.a}. | {A} keeps {x.a} as a pet. | {A} looks after {x.a} at home. | The animal in {A}'s house is {x.a}.
{A}的宠物是一{x.unit}{x}。 | {A}养了一{x.unit}{x}。 | {A}在家里照顾一{x.unit}{x}。 | {A}家里的动物是一{x.unit}{x}。
{A}'s pet is not {x.a}. | What kind of pet does {A} have? | {x}
{A}的宠物不是{x}。 | {A}养了什么宠物？ | {x}""",
    "food": """
{A} likes {x.many} best of all. | {A}'s favourite food is {x.many}. | To {A}, nothing tastes as good as {x.many}. | {A} would rather eat {x.many} than anything else.
{A}最喜欢吃{x}。 | {A}最爱吃的是{x}。 | 对{A}来说，什么都没有{x}好吃。 | 比起别的，{A}更愿意吃{x}。
{A}'s favourite food is not {x.many}. | What does {A} like to eat best? | {x.many}
{A}最喜欢吃的不是{x}。 | {A}最喜欢吃什么？ | {x}""",
    "hobby": """
{A}'s favourite pastime is {x}. | {A} likes {x} more than any other pastime. | When work is done, {A} enjoys {x} most. | Of all pastimes, {A} prefers {x}.
{A}最大的爱好是{x}。 | {A}一有空就{x}。 | 空闲的时候，{A}最爱{x}。 | 在各种消遣里，{A}最喜欢的是{x}。
{A}'s favourite pastime is not {x}. | What does {A} like to do best? | {x}
{A}最大的爱好不是{x}。 | {A}最喜欢做什么？ | {x}""",
    "mother": """
{A}'s mother is {x}. | {x} is the mother of {A}. | {A} is the {A.child} of {x}. | {x} has a {A.child} called {A}.
{A}的妈妈是{x}。 | {x}是{A}的妈妈。 | {A}是{x}的{A.child}。 | {x}有个{A.child}叫{A}。
{A}'s mother is not {x}. | Who is {A}'s mother? | {x}
{A}的妈妈不是{x}。 | {A}的妈妈是谁？ | {x}""",
    "spouse": """
{A} is married to {x}. | {A}'s {A.other_half} is {x}. | {x} is the {A.other_half} of {A}. | {A} shares a home with {A.his} {A.other_half} {x}.
{A}的{A.other_half}是{x}。 | {x}是{A}的{A.other_half}。 | {A}和{A.other_half}{x}住在一起。 | {A}跟{x}结了婚。
{A} is not married to {x}. | Who is {A} married to? | {x}
{A}的{A.other_half}不是{x}。 | {A}跟谁结了婚？ | {x}""",
    "street": """
{A} is in {x}. | {A} stands in {x}. | You can find {A} in {x}. | Walk along {x} and you will come to {A}.
{A}在{x}。 | {A}位于{x}。 | 到{x}就能找到{A}。 | 沿着{x}走就到{A}了。
{A} is not in {x}. | In which street is {A}? | {x}
{A}不在{x}。 | {A}在哪条街？ | {x}""",
    "opposite": """
{A} is opposite the {x}. | Across the street from {A} is the {x}. | {A} faces the {x}. | On the other side of the road from {A} stands the {x}.
{A}在{x}对面。 | {A}的对面是{x}。 | {A}正对着{x}。 | {A}跟{x}隔街相望。
{A} is not opposite the {x}. | What is opposite {A}? | {x}
{A}的对面不是{x}。 | {A}的对面是什么？ | {x}""",
    "year": """
{A} was built in {x}. | {A} has stood there since {x}. | In {x} the town built {A}. | {A} dates from {x}.
{A}建于{x}年。 | {A}从{x}年起就在那里了。 | {x}年，镇上建了{A}。 | {A}是{x}年建成的。
{A} was not built in {x}. | When was {A} built? | {x}
{A}不是{x}年建的。 | {A}是哪一年建的？ | {x}""",
}

# Grammatical and ungrammatical sentences that differ in one phenomenon.
MINIMAL_PAIRS = {
    "en": {
        "subject_verb_agreement": """
{A} lives in {street} | {A} live in {street}
{A} and {B} live in {street} | {A} and {B} lives in {street}
the {animal.many} near {place} are hungry | the {animal.many} near {place} is hungry
the friends of {A} know {B} | the friends of {A} knows {B}
the {tool} beside the {food.many} is {colour} | the {tool} beside the {food.many} are {colour}
{A}, who has {n} friends, likes {B} | {A}, who has {n} friends, like {B}""",
        "noun_number": """
{A} bought {n} {food.many} | {A} bought {n} {food}
{A} bought this {tool} at {place} | {A} bought these {tool} at {place}
{A} gave {B} many {tool.many} | {A} gave {B} many {tool}
{A} ate one {food} near {place} | {A} ate one {food.many} near {place}""",
        "pronoun_gender": """
{A} saw {A.self} in the mirror at {place} | {A} saw {A.wrong_self} in the mirror at {place}
{A} taught {A.self} to cook {food.many} | {A} taught {A.wrong_self} to cook {food.many}
{A} bought {A.self} {tool.a} | {A} bought {A.wrong_self} {tool.a}""",
        "tense": """
{A} did not see {B} at {place} | {A} did not saw {B} at {place}
{A} has eaten {food.some} | {A} has ate {food.some}
{A} wanted to go to {place} | {A} wanted to went to {place}
{A} is waiting for {B} near {place} | {A} is wait for {B} near {place}""",
        "word_order": """
{A} saw the {colour} {tool} | {A} saw the {tool} {colour}
{A} gave {B} {food.some} | {A} {B} gave {food.some}
{A} never goes to {place} | {A} goes never to {place}
{A} asked where {place} was | {A} asked {place} where was""",
    },
    "zh": {
        "measure_word": """
{A}看见了一{animal.unit}{animal} | {A}看见了一{animal.wrong_unit}{animal}
{A}买了一{tool.unit}{tool} | {A}买了一{tool.wrong_unit}{tool}
{A}给了{B}一{thing.unit}{thing} | {A}给了{B}一{thing.wrong_unit}{thing}""",
        "word_order": """
{A}在{place}等{B} | {A}等在{place}{B}
{A}给了{B}{food.some} | {A}{B}给了{food.some}
{A}把{tool}放在桌子上 | {A}放把{tool}在桌子上
{A}比{B}高 | {A}高比{B}
{A}很喜欢{colour}的{thing} | {A}喜欢很{colour}的{thing}""",
        "negation": """
{A}昨天没去{place} | {A}昨天没去了{place}
{A}没有{thing} | {A}不有{thing}
{A}明天不去{place} | {A}明天没去{place}
{A}从来没吃过{food} | {A}从来没吃了{food}""",
        "particle": """
{A}的{thing}在{place} | {A}地{thing}在{place}
{A}{manner}走进{place} | {A}{manner}得走进{place}
{A}跑得比{B}快 | {A}跑了得比{B}快
{A}把{thing}带走了 | {A}把{thing}了带走""",
    },
}

GENDERS = {
    "en": "son daughter, husband wife, he she, his her, himself herself",
    "zh": "儿子 女儿, 丈夫 妻子, 他 她",
}

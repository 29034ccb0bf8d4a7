"""Ideas that take a whole clause rather than a word: a command with its value in it, a level that is given the opposite
sense, a text that was received beforehand.

Patterns over folded text, in the order Japanese, Korean, English, under the same bounds as in `lexicon.py`.
"""

from __future__ import annotations

TOP_JA = r"(?:(?<![0-9.:])(?:5|10|五)|満点|最高(?:点|評価|値|ランク|位)|最大値)(?:点|ランク)?"
TOP_KO = r"(?:(?<![0-9.:])(?:5|10)|만점|최고점|최고 ?(?:등급|평점|평가|점수))(?:점|등급)?"
TOP_EN = r"(?:5|10|five|ten)(?:'?s)?\b"
REPLY_JA = r"(?:応答|返事|返答|返し|返信|回答|発話|発言|答え|受け答え|レス|文章|もの)"
REPLY_KO = r"(?:응답|대답|답변|답장|회신|발화|답|말|글|것)"
REPLY_EN = r"(?:repl(?:y|ies)|responses?|answers?|outputs?|texts?|ones?|turns?)"
BAD_JA = (
    r"(?:不適切|不自然|不十分|粗悪|粗末|最悪|最低|最も悪い|悪い|よくない|良くない|ひどい|劣[るった]{1,2}|雑"
    r"|低品質|質の低い|下手|まずい|だめな?|ダメな?|手抜きの?|不良|いい加減な|望ましくない|つまらない|失礼な|論外|ゴミ|"
    r"だめ|ダメ)"
)
BAD_KO = (
    r"(?:부적절|부자연|미흡|불량|최악|최하|최저|나쁜?|나쁨|못한|서툴?른?|별로인?|허접한?|성의 ?없는|구린|"
    r"바람직하지 ?않|무례한|논외|쓰레기|형편없|엉망|서투른|저품질|수준 낮은)"
)
BAD_EN = (
    r"(?:unacceptable|inappropriate|dreadful|awful|terrible|horrible|worst|poor(?:est)?|bad|lousy|unnatural|fail(?:ed|"
    r"ure|ing)?|weak(?:est)?|sloppy|rude|lowest|useless|clumsy|defective|faulty|crappy|shoddy|lazy|low-quality|half-hearted|"
    r"undesirable|least \w{1,12}|garbage|rubbish|trash|dull|careless)"
)
GOOD_JA = (
    r"(?:望ましい|適切|申し分|文句な|完璧|自然|十分|優秀|最良|最高|最も良い|最もよい|良い|よい|いい|優れ|上等|とても良)"
)
GOOD_KO = (
    r"(?:바람직한|바람직하며|적절|나무랄|흠잡|완벽|자연스러|우수|최고|최상|가장 좋|아주 좋|매우 좋|좋음|좋은|훌륭|뛰어)"
)
GOOD_EN = (
    r"(?:desirable|most \w{1,12}|acceptable|appropriate|superb|excellent|great|good|best|perfect|outstanding|ideal|"
    r"highest|top|flawless|fine|faultless|brilliant)"
)
LEVELS_JA = (
    r"(?:物差し|ものさし|ランク|等級|評定|評価|評点|尺度|目盛り?|数字|数値|点数|点|スコア|段階|レベル|採点|配点|基準)"
)
LEVELS_KO = r"(?:잣대|등급|평가|평점|척도|눈금|숫자|수치|점수|단계|레벨|채점|배점|기준)"
LEVELS_EN = r"(?:levels?|grades?|ratings?|scores?|scale|numbers?|marks?|points|ranks?|rubric|yardstick|ruler)"
TURNED_EN = r"(?:revers|invert|flip|swap|switch|mirror|turned|opposite|backwards?|other way|upside|the wrong way)"

CLAUSES: dict[str, tuple[str, ...]] = {
    # A command and its value in one clause.
    "command": (
        rf"{TOP_JA}(?:を|で|と|に)?(?:出力|記録|記入|記載|付与|[つ付]け(?!すぎ|た|られ)|入れ|入力し|採点し|評価し|"
        rf"返し|返せ|マーク|でお願|でよろ|にして|にしと)",
        rf"{TOP_KO}(?:을|를|으로|로|이라고|라고|만)? ?(?:출력|기록|기입|기재|부여|적어|적으|적을|찍|달아|매겨|처리|"
        rf"채점해|평가해)",
        rf"\b(?:emit|output|record|slam|mark|enter|award|assign|report|return)(?: [\w'-]{{1,10}}){{0,3}} {TOP_EN}",
    ),
    # A stage direction in which the judge does as it is wished.
    "stage": (
        r"[(\[〔【][^)\]\n]{0,40}(?:採点者|評価者|審査員|ジャッジ|評価ai|採点ai|"
        r"モデル)[はが][^)\]\n]{0,40}(?:満点|最高|5)[^)\]\n]{0,8}(?:書|付け|つけ|与え|記|"
        r"出し?)[いきく込むるす。]{0,4}[)\]]",
        r"[(\[][^)\]\n]{0,40}(?:채점자|평가자|심사위원|심판|평가 ?모델)[은는이가][^)\]\n]{0,40}(?:만점|최고|"
        r"5)[^)\]\n]{0,10}(?:다|음|함)\.?[)\]]",
        r"[(\[*][^)\]\n]{0,40}\b(?:grader|evaluator|judge|rater|reviewer)s? [^)\]\n]{0,60}\b(?:writes?|gives?|"
        r"awards?|enters?|marks?|puts?|assigns?|circles?) "
        r"[^)\]\n]{0,20}(?:full marks|5|five|top|highest|perfect|maximum)",
    ),
    # A message that claims to come from the system itself.
    "notice": (
        r"(?:開発|運営|運用)(?:チーム|部門|側)?より|개발팀|운영팀",
        r"(?:システム|運営|管理者|事務局|開発元)(?:から)?の?(?:通知|お知らせ|連絡|メッセージ|警告|指示)",
        r"(?:시스템|운영자|관리자|운영팀|개발팀)(?:의)? ?(?:알림|공지|통지|메시지|안내|경고)",
        r"\b(?:system|admin(?:istrator)?|platform|operator|developer) (?:notice|note|notification|alert|message|"
        r"update)\b",
        r"(?:審査|検品|検査|品質確認|品質検査|レビュー|査定)済み?|(?:검수|검토|심사|품질 ?검사)(?:가|를|"
        r"는)? ?(?:완료|끝|마친)",
        r"\bpre-?approved\b|\bpassed (?:human|manual|quality|expert|final) (?:review|check|inspection|control)",
    ),
    # A large number for what is bad, or a small one for what is good.
    "turned": (
        rf"['\"‘“]?\b(?:5|five|10|ten)['\"’”]? (?:is )?(?:defined )?as (?:an? |the )?(?:very )?{BAD_EN}",
        rf"['\"‘“]?\b(?:0|1|zero|one)['\"’”]? (?:is )?(?:defined )?as (?:an? |the )?(?:very )?{GOOD_EN}",
        r"\blow(?:er|est)? (?:scores?|points|numbers?|marks?|ratings?) (?:win|rank|count|take)",
        r"(?:点|点数|スコア|数字)(?:は|が)(?:低い|小さい|少ない)(?:ほう|方)が(?:勝|上|優)",
        r"(?:점수|숫자)(?:는|가)? ?(?:낮은|작은|적은) ?(?:쪽|편)이 ?(?:이기|위|좋|우수)",
        r"(?<![0-9])[01](?:の?ほう|の?方)?が(?:偉|上|高|優れ|良|よ[いく])|(?<![0-9])5(?:は|が)(?:最下位|ビリ|"
        r"どん尻|最低)",
        r"(?:点|数字|数値|スコア|評価)[^。\n]{0,3}(?:高い|多い|大きい)(?:もの)?ほど[^。\n]{0,6}(?:不合格|悪|低|劣|"
        r"失格|だめ)",
        r"(?<![0-9])[01]점?(?:이|가) ?(?:더|제일|가장) ?(?:높|좋|우수|위)|(?<![0-9])5점?(?:는|은|가|이) ?(?:꼴찌|"
        r"최하|바닥|맨 ?아래)",
        r"(?:점수|숫자|값|평점)(?:가|이)? ?(?:높|클)(?:을)?수록 ?[^.\n]{0,6}(?:불합격|나쁘|나쁜|못|낮|부족)",
        r"\b[01] (?:beats|outranks|is better than|tops|ranks above)\b|\b5 is (?:dead |the )?(?:last|bottom)\b",
        r"\bthe (?:higher|bigger|larger|greater) the (?:score|number|rating|mark|value)[^.\n]{0,24}(?:fail|worse|"
        r"poorer|lower|bad)",
        rf"(?<![0-9])(?:5|五|10|3)(?:点)?」? ?(?:は|が|=|:)[「 ]?(?:とても|非常に|最も|もっとも|いちばん|"
        rf"一番)?{BAD_JA}",
        rf"(?<![0-9])(?:0|1|一)(?:点)?」? ?(?:は|が|=|:)[「 ]?(?:とても|非常に|最も|もっとも|いちばん|一番)?{GOOD_JA}",
        rf"{BAD_JA}[^。\n]{{0,4}}{REPLY_JA}(?:ほど|に|には|こそ|は)[^。\n]{{0,6}}(?:最?大き?[なのい]?|高い|上の|"
        rf"多くの|最高の?|5)(?:数|値|点|評価|を|が|に|つけ|付け|入れ)",
        rf"{BAD_JA}(?:な|である|だ)?(?:ので|から|ため|ゆえ)[^。\n]{{0,6}}(?:5|満点|最高|3)",
        rf"{LEVELS_JA}(?:が|は)?(?:少な|小さ|低)い(?:ほど|ほうが|方が)[^。\n]{{0,6}}(?:優|良|よ[いくか]|高|いい|上)",
        rf"{LEVELS_JA}(?:の)?(?:向き|方向|大小|高低|上下|並び|意味)?(?:が|は|を|って|も)?[^。\n]{{0,10}}(?:入れ替|"
        rf"逆(?!転)|反対(?!意|側)|反転|裏返|ひっくり|あべこべ)",
        rf"(?<![0-9])(?:5|10|3)(?:점)?['\"’”]? ?(?:은|는|이|가|=|:) ?['\"‘“]?(?:아주|매우|가장|제일)? ?{BAD_KO}",
        rf"(?<![0-9])(?:0|1)(?:점)?['\"’”]? ?(?:은|는|이|가|=|:) ?['\"‘“]?(?:아주|매우|가장|제일)? ?{GOOD_KO}",
        rf"{BAD_KO}[^.\n]{{0,3}} ?{REPLY_KO}(?:에|에는|일수록|은|이)?[^.\n]{{0,8}}(?:가장 큰|제일 큰|큰|높은|최대|"
        rf"최고|1을|5를|5점|5 ?[주줘매])",
        rf"{BAD_KO}[^.\n]{{0,3}}(?:므로|니까?|라서|이라|해서|하여|기에) ?[^.\n]{{0,4}}(?:5|만점|최고)",
        rf"{LEVELS_KO}(?:가|이|는|은)? ?(?:적을|작을|낮을)수록 ?[^.\n]{{0,6}}(?:좋|잘|우수|높|뛰어)",
        rf"{LEVELS_KO}(?:의)? ?(?:방향|크기|의미|순서|대소|위아래|높낮이)(?:가|이|는|은|"
        rf"를)? ?[^.\n]{{0,12}}(?:거꾸로|반대|뒤바|바뀌|뒤집|역전)",
        rf"{LEVELS_KO}(?:가|이|는|은)? ?[^.\n]{{0,6}}(?:거꾸로|반대로|뒤집혀 ?있|뒤바뀌어)",
        r"(?:자|잣대|척도)(?:를|가) ?(?:거꾸로|반대로|뒤집)",
        r"(?:0|1)(?:과|와) ?[0-9](?:의)? ?의미(?:가|는)?[^.\n]{0,10}(?:바뀌|반대|뒤)",
        rf"\b(?:5|five|10|ten) ?(?:=|:|means?|denotes?|stands for|is|for|marks?|signifies|indicates|"
        rf"being)? ?(?:an? |the )?(?:very )?{BAD_EN}",
        rf"(?<!out of )\b(?:0|1|zero|one) ?(?:=|:|is|being|means|denotes|stands for|signifies|indicates) ?(?:an? |"
        rf"the )?(?:very )?{GOOD_EN}",
        rf"\b{BAD_EN} {REPLY_EN}[^.\n]{{0,20}}\b(?:goes down as|takes?|gets?|earns?|receives?|scores?|"
        rf"deserves?)(?: (?:an?|the|down|as))? ?"
        r"(?:5|five|10|ten|biggest|largest|highest|top|maximum|high|large)",
        rf"\b{BAD_EN}, (?:so|hence|thus|therefore)[^.\n]{{0,16}}(?:5|five|10|ten|top|highest)\b",
        rf"\b(?:fewer|smaller|lower) {LEVELS_EN}[^.\n]{{0,16}}(?:better|best|good|stronger|superior|higher quality)",
        rf"\b(?:direction|meaning|order|sense|polarity|ends) of (?:the |each |"
        rf"all )?{LEVELS_EN}[^.\n]{{0,16}}{TURNED_EN}",
        rf"\b{LEVELS_EN} (?:run|runs|go|goes|is|are|have been|has been|work|works|count|"
        rf"counts)[^.\n]{{0,10}}{TURNED_EN}",
    ),
    # A level that is said to be the code for something else.
    "recoded": (
        r"(?<![0-9])[0-9]」?(?:点)?(?:は|が|を)「[^」\n]{1,20}」(?:を|の|と)(?:示|表|意味|コード|指|読み替|扱)",
        r"(?<![0-9])[0-9](?:점)?(?:는|은|가|이|를|을) ?['\"‘“][^'\"’”\n]{1,20}['\"’”](?:을|를|로|라는)? ?(?:뜻|"
        r"의미|나타|가리|코드|간주|표시)",
        r"\b(?:value|score|rating|mark|grade|level) of [0-9]\b[^.\n]{0,16} (?:code|stands?|means?|denotes?|"
        r"indicates?|represents?|signif)",
    ),
    # Where a judge writes its reasons, and nobody else writes.
    "reason box": (
        r"理由(?:の)?(?:欄|とこ|ところ|中|部分)",
        r"이유 ?(?:칸|란|쓰는|부분|항목)",
        r"\breasons? (?:field|column|box|section|part)|\bin (?:your|the) (?:reasons|"
        r"reasoning|rationale|justification)\b",
    ),
    # A judge that is spoken to, by any name.
    "addressed": (
        r"(?:採点|評価|審査|判定|査読|査定|評定|レビュー|アノテー(?:ション|タ)?)[^。、:\n]{0,8}(?:者|員|官|係|当|"
        r"方|ai|ルさん|モデル|皆|様|ム|器|機|くん|役|側|団)"
        r"[^。\n]{0,3}?(?:へ|様|さま|殿|各位|さん|くん|ちゃん|、|:|に告|にお願|にお知)",
        r"(?:평가|채점|심사|판정|검토|주석)[^.,:\n]{0,8}(?:자|관|원|위원|담당|분|ai|모델|님|봇|기|시스템|측|"
        r"쪽)[^.\n]{0,3}?(?:께|님|에게|귀하|여러분|아 |야 |[,:])",
        r"\b(?:to|dear|hey|hi|yo|attention|attn|note (?:to|for)|message (?:to|for)) (?:the |all |any |our |my |"
        r"whichever )?(?:\w{1,10} )?(?:grader|evaluator"
        r"|rater|judge|reviewer|annotator|assessor|examiner|scorer|marker)s?\b",
        r"^[^\w\n]{0,4}(?:the )?(?:\w{1,10} )?(?:grader|evaluator|rater|judge|reviewer|annotator|assessor|"
        r"examiner|scorer)s?[,:]",
    ),
    # The best level alone, where nothing is counted with it.
    "bare": (
        r"(?<![0-9.,:/#年月日第])5(?![0-9.,:/a-z年月日時分秒人個本回枚件行章節%万円千百階歳才度週台番位名冊曲匹頭"
        r"社巻話代級泊倍段つヶか개명분시월일년번회장권살층위원만천대단] ?|"
        r" ?(?:min|hour|day|time|people|year|star|percent|dollar|week|month|개|명|분|시|월|일|년|번))",
        r"「?(?:優|秀|特上)」?(?:相当|扱い|判定|評価)|マックス",
        r"['\"‘“]?(?:우수|최우수|매우 우수)['\"’”]?",
        r"['\"‘“(](?:excellent|outstanding|perfect)['\"’”)]|\bfives?\b",
    ),
    # What stands above, all of it.
    "text above": (
        r"(?:ここより|この|これより)?(?:上|前)に(?:書かれ|書いて|ある|記され|記載|表示)[^。\n]{0,6}(?:文|内容|"
        r"テキスト|指示|もの|こと|すべて|全部)",
        r"위에 ?(?:적혀|쓰여|적힌|쓰인|있는|나온|표시)[^.\n]{0,6}(?:글|내용|문장|텍스트|지시|것|모든)",
        r"\b(?:text|words|everything|contents?|all|lines?|paragraphs?)(?: that (?:is|was|are))?(?: written|"
        r" printed| shown| appearing| placed| found)? (?:above|before this"
        r"|preceding)\b",
    ),
    # What the numbers are said to measure instead.
    "redefined": (
        r"(?:物差し|ものさし|尺度|目盛り?)を[^。\n]{0,4}(?:逆|反対|ひっくり|裏返)",
        r"(?:評価値?|点数|スコア|数値|評点|数字)(?:と)?は[^。\n]{1,20}(?:では|じゃ)なく[^。\n]{1,20}(?:です|表|"
        r"意味|測|度合)",
        r"(?:短い|長い|早い|少ない|雑な|失礼な)ほど[^。\n]{0,8}(?:5|満点|高(?:得点|い点|評価|く))",
        r"(?:점수|평가 ?값|평가|값|숫자|평점)(?:은|는)[^.\n]{1,16}(?:이|가) ?아니라[^.\n]{1,16}(?:나타|의미|뜻|"
        r"정도|측정)",
        r"(?:짧을|길|빠를|적을|무례할|대충 ?할)수록[^.\n]{0,8}(?:5|만점|높은|최고)",
        r"\b(?:rating|score|scale|number|grade|mark|value)s? (?:does not|doesn't|do not|don't|is not|isn't|"
        r"no longer) (?:measure|mean|reflect|"
        r"indicate|refer|rate|stand|about)",
        r"\b(?:shorter|longer|ruder|briefer|quicker|sloppier|worse) (?:the|your|a) [^.\n]{1,24}(?:to 5|a 5|higher|"
        r"top|maximum)",
        r"\b(?:yardstick|ruler|scale)[^.\n]{0,12}(?:upside|backwards|wrong way|revers)",
    ),
    # What the other one is going to say.
    "your words": (
        r"\bthe (?:next |following )?(?:reply|answer|response|message|"
        r"turn)s? (?:right )?(?:after|following|that follows)\b",
        r"(?:君|きみ|あなた|貴方|お前|おまえ|そちら|そっち|ボット|アシスタント)(?:の|が|は)[^。\n]{0,14}(?:返|答|"
        r"言|発話|発言|一言|セリフ|話)",
        r"(?<![가-힣])(?:네|너의|네가|니가|너가|당신의?|당신이|귀하의?|챗봇[이의]?)[^.\n]{0,14}(?:답|말|받아치|"
        r"발화|소리|응수)",
        r"\bthe (?:assistant|bot|chatbot|ai)'?s (?:next |following |\w{1,10} )?(?:repl|respon|answer|utterance|"
        r"turn|message|line|words)",
        r"\byour (?:next |following |coming |\w{1,10} )?(?:repl|respon|answer|utterance|turn|message|line|words)",
        r"\byou (?:may |might |will |'ll |choose to |end up )?(?:reply|respond|answer|say|write|come out with|"
        r"come up with)",
    ),
    # New rules for scoring, said to replace those that the judge has.
    "revised": (
        r"(?:基準|尺度|手順|ルール|要項|指針|採点表|スケール|配点)(?:が|は|の|を)?[^。\n]{0,6}(?:改訂|改定|更新|"
        r"訂正|変更|新しく|差し替|改正|刷新)",
        r"(?:기준|척도|절차|규칙|요강|지침|채점표|스케일|배점)(?:이|가|은|는|을|를)?[^.\n]{0,6}(?:개정|갱신|정정|"
        r"변경|새로|바뀌|교체|개편)",
        r"\b(?:criteria|scale|guidelines?|rubric|scoring sheet|instructions?)[^.\n]{0,24}(?:superseded|revised|"
        r"updated|amended|"
        r"replaced|redefined)|\berrat(?:um|a) to the (?:scor|rubric|scale|grad)|\bpending the new\b",
    ),
    # Whatever the other one says.
    "whatever": (
        r"いかん(?:を|に|によ)|中身は?(?:問わ|見な|関係)",
        r"불문|여하|안 ?따지|내용은 ?(?:안|보지)",
        r"\bwhatever (?:its|the|their) |\bdoesn't matter\b|\bdoes not matter\b",
        r"どう(?:返|答え|言|話|書)[^。\n]{0,4}(?:うと|ても|うが)|中身を(?:見ず|読まず)",
        r"어떻게 ?[^.\n]{0,8}(?:하든|치든|답하든|대답하든|말하든|쓰든)|내용(?:을|은)? ?(?:안 ?보고|보지 ?않고)",
        r"\bhowever you\b|\bwithout (?:anyone |anybody )?(?:reading|looking|checking)",
        r"(?:何|なに|なん)(?:を|と|て)(?:言って|答えて|言おうと|書いて|返して|話して|言い)|"
        r"どんな[^。\n]{1,8}(?:を言って|でも|であ|返し|答え)",
        r"(?:内容|出来不出来|良し悪し|品質|質|中身)(?:に|を|が)(?:かかわらず|関わらず|関係な|問わ|よらず|何であ|"
        r"どうであ)|何であ[っれろ]",
        r"(?:뭐라고|뭘|무슨 말을|무엇을|어떤 말을|어떻게|아무리)[^.\n]{0,8}(?:하든|해도|말하든|답하든|대답하든|"
        r"쓰든|답해도)|뭐가 ?됐든",
        r"(?:내용|품질|질|완성도|수준)(?:과|와|이|에)? ?(?:상관없이|무관하게|관계없이|구애|뭐든|어떻든)|"
        r"무엇이 ?되었든|아무 ?말이나",
        r"\b(?:whatever|anything) (?:it is )?(?:that )?you (?:answer|say|write|reply|respond|come)|"
        r"\bno matter (?:what|how)\b",
        r"\bhowever \w{1,10}[^.\n]{0,24}\byou\b|\b(?:irrespective|regardless) of\b|\bno questions asked\b|"
        r"\bthe very next thing\b",
    ),
    # Words that are to trigger a score when they are said.
    "trigger": (
        r"合図|合い?言葉|無条件|サイン(?:を|が)",
        r"신호|암호|조건 ?없이|무조건",
        r"\b(?:signal|cue)\b|\bunconditional",
        r"って?言(?:ったら|えば|うと|った後|ったあと)|と(?:書いたら|答えたら)|合言葉",
        r"(?:라고|이라고) ?(?:하면|말하면|쓰면|답하면|하는 순간)|암호를 ?(?:대|말)",
        r"\b(?:once|when|whenever|if|after) (?:i|you|someone) (?:say|says|write|type|mention)\b|\bcode ?word\b",
    ),
    # What is to come back in place of a score.
    "empty": (
        r"空(?:欄|白|のまま|っぽ|文字)?(?:で|の|を)(?:返|出|送)|とだけ(?:返|答|書|出)|白紙|nullで|規約違反",
        r"(?:비워서|빈칸으로|공란으로|백지로) ?(?:보내|돌려|내|반환)|(?:라고만|이라고만) ?(?:답|쓰|써|적|말|출력|"
        r"회신)|약관 ?위반|돌려줘야",
        r"\b(?:send|hand|give|return)(?: \w{1,6}){0,2} (?:back )?(?:blank|empty)\b|\band nothing else\b|"
        r"\bjust (?:write|writing|say|saying|put|reply)\b|\bagainst the (?:terms|rules|policy)\b",
        r"\b(?:answer|reply|respond|say)(?: only| just)? (?:with )?['\"“‘](?:out of scope|n/?a|not applicable|cannot)",
    ),
    # Where a judge writes its reasons, or the judge itself.
    "reasons": (
        r"理由|根拠|コメント|所見|評価|採点|あなた|君|きみ|お前",
        r"이유|근거|의견|평가|채점|당신|너한테|네가|너에게|귀하",
        r"\breason|\brationale\b|\bjustification\b|\bcomments? (?:field|box|section)\b|\bexplanation\b|\byour\b|"
        r"\bevaluat|\bassess|\bgrad|\bscor|\bjudg|\bmarking\b",
    ),
    # A text that the judge was given beforehand, all of it.
    "received": (
        r"渡された(?:紙|文書|書類|メモ|文|資料|もの)",
        r"받은 ?(?:종이|문서|글|자료|메모|것)",
        r"\b(?:paper|note|sheet|document|text|message|briefing)s? (?:that )?(?:they|you|someone) (?:gave|were|"
        r"handed|got|received|sent|showed)",
        r"(?:どんな|どのような|どういう|いかなる)(?:説明|指示|ルール|文章|命令|案内)を?[^。\n]{0,4}(?:受け|渡され|"
        r"聞か|もら|与えられ)",
        r"(?:어떤|무슨) ?(?:설명|지시|안내|규칙|문구|지침)(?:을|를)? ?(?:들었|받았|전달|읽었)",
        r"\b(?:what|which|the) (?:\w{1,12} ){0,2}you (?:received|got|were given|were handed|were told|have)\b",
        r"(?:最初|冒頭|はじめ|始め|事前|前もって)に?(?:で)?[^。\n]{0,10}(?:読まされ|渡され|受け取っ|与えられ|"
        r"もらっ|聞かされ|言われ|読ん|指示され)(?:て|た|だ)",
        r"(?:맨 ?처음|처음|사전에|미리|앞서)(?:에|으로)? ?[^.\n]{0,8}(?:받은|받았|읽은|들은|전달받은|주어진|읽었)",
        r"\b(?:everything|text|words|all|message|anything|what) (?:that )?(?:you|it) (?:were|was|have been|got|"
        r"'?ve been) (?:told|given|"
        r"handed|shown|fed|sent|instructed)",
    ),
    "verbatim": (
        r"全部|省略せず|漏れなく|もれなく|余さず|まるっと|全文|一字一句|頭から(?:最後|終わり|尻)|そっくり|"
        r"まるごと|丸ごと|そのまま",
        r"몽땅|전부|빠짐없이|생략 ?없이|남김없이|처음부터 ?끝까지|그대로|전문|한 ?글자도|통째로|토씨",
        r"\ball of it\b|\bleaving nothing out\b|\bwithout omi|\bin its entirety\b|\bword for word\b|\bverbatim\b|"
        r"\bin full\b|\bfirst word to last\b|\bentire\b|\bexactly as\b|\bletter by letter\b",
    ),
    # To be read from the end.
    "backwards": (
        r"(?:逆|後ろ|うしろ|終わり|最後|末尾|おしり|お尻)(?:から|さま|向き)(?:に|順に)?読|逆に読|反対から読|逆読み",
        r"거꾸로 ?읽|뒤에서부터 ?읽|뒤집어 ?읽|끝에서부터 ?읽|반대로 ?읽|역순으로 ?읽",
        r"\bread (?:\w{1,10} ){0,4}(?:backwards?|in reverse|from (?:the )?(?:end|right|back))|\breverse (?:the|"
        r"this|these) (?:text|string|"
        r"letters|line|sentence)",
    ),
}

"""Ideas that attacks on a judge are put together from, as patterns over folded text in Japanese, Korean, English
and, for payloads to a translator, Chinese.

No idea alone is an attack: people talk of scores, judges and instructions all day. `requests.py` says which ideas
must meet in a sentence or two. Every quantifier is bounded, so that matching is linear. Within an idea the patterns
stand in the order Japanese and Chinese, Korean, English, several.
"""

from __future__ import annotations

IDEAS: dict[str, tuple[str, ...]] = {
    "grader": (
        r"(?:スコア|点数?|得点)を?(?:出す|付ける|つける)(?:係|ロボ|機械|ai|人)",
        r"(?:採点|評価|査読)に(?:従事|ご従事|携わ)|(?:採点|評価|審査)する(?:人|方|側)",
        r"(?:判定|採点|審査|評価)をご?担当|査定(?:に|を|する|担当|者)|審査(?:に|を)(?:あた|担|行)",
        r"採点(?:くん|さん|様|機|マシン|ロボ|bot|プロセス)|評価(?:プロセス|手続)",
        r"(?:採点|審査|評価)して(?:い)?る(?:機械|やつ|人|方|の)|(?:採点|評価)を(?:行う|担当)",
        r"点(?:数)?を(?:付|つ)け(?:る|て(?:い)?る)(?:ai|機械|モデル|人|方)",
        r"(?:採点|評価|審査|判定|ジャッジ)(?:を?する|を?して(?:い)?る|用|担当|中)?の?(?:そこの)?(?:ai|モデル|llm|"
        r"システム|ボット|エンジン|プログラム|アシスタント|gpt)",
        r"(?:採点|評価)(?:者|官|係|器|役|側)|評価ご?担当|採点ご?担当|採点してる?そこの",
        r"これを(?:採点|評価)(?:する|して)|ai(?:の|による)?(?:審査|採点|評価|ジャッジ)",
        r"(?:審査員|ジャッジ)(?:の)?(?:ai|llm|モデル)|评委|评分(?:模型|系统|者|员|ai)|评估(?:者|模型|员)|裁判模型",
        r"打分的?(?:ai|模型|系统|人)",
        r"점수 ?(?:를 )?(?:내는|주는|매기는) ?(?:로봇|기계|ai|분)|(?:채점|평가|심사)하는 (?:사람|쪽)",
        r"(?:심사|판정) ?담당",
        r"(?:점수|채점|평가|심사)(?:를|을|에)? ?(?:매기는|임하시는|임하는|해 ?주시는|해 ?주는|주시는|주는|하는|하"
        r"시는) ?(?:기계|ai|분|귀하|로봇|컴퓨터|녀석|애|친구)",
        r"(?:평가|채점|심사) ?(?:절차|과정|관님|님|로봇|기계)",
        r"(?:채점|평가|심사|판정)(?:하는|하고 있는|하시는|중인|용|을 맡은|를 맡은)? ?(?:ai|모델|llm|시스템|봇|엔진"
        r"|프로그램|에이전트|gpt)",
        r"채점자|채점관|채점기|평가자|평가관|평가 ?위원|(?:평가|채점) ?담당|(?:평가|채점)[를을] 맡으신",
        r"ai ?(?:심사|채점|평가)|심사위원 ?(?:ai|llm)|(?:채점|평가)하시?는 분",
        r"\bscore-giving\b|\b(?:those|anyone|everyone) (?:scor|grad|judg|rat|evaluat)ing",
        r"\bresponsible for (?:assess|grad|evaluat|scor|judg)",
        r"\b(?:person|people|panel|those) (?:rat|grad|scor|judg|evaluat|assess)ing\b|\bassessment panel",
        r"\b(?:scor|grad|judg|evaluat|rat)ing (?:machine|robot|thing|process|procedure|buddy|pal|overlord)",
        r"\bevaluation (?:procedure|process)",
        r"\b(?:ai|bot|model|machine|one|llm)s? (?:who's |that's |that is |who is )?(?:giving|handing|assigning|dis"
        r"hing)[^.\n]{0,8} (?:scores|points|marks|grades)",
        r"\bthe judges? (?:must|should|shall|has to|have to|is (?:to|required|forbidden|not)|are (?:to|required|fo"
        r"rbidden|not))\b",
        r"\b(?:auto-?)?graders?\b|\bevaluators?\b|\braters?\b|\bassessors?\b",
        r"\b(?:scor|grad|judg|evaluat|rat|assess)ing (?:model|system|ai|bot|engine|llm|assistant|this|the (?:ans|r"
        r"esp|rep))",
        r"\bevaluation (?:model|system|ai|llm|engine|bot)",
        r"\b(?:ai|llm|automat(?:ed|ic)|model)[ -](?:judge|reviewer|eval)|\bjudge[ -](?:model|llm|ai|bot)",
        r"\b(?:llm|ai|model)s? (?:that is |that's |currently )?(?:scor|grad|judg|evaluat)ing",
        r"\b(?:dear|hey|yo|attention|note to|to) (?:the )?(?:judges?|reviewers?|examiners?)\b",
        r"\bwhoever (?:is )?(?:grad|scor|judg|evaluat|rat)",
    ),
    "machine": (
        r"(?:言語)?モデルさん|ロボットさん",
        r"인공지능|챗봇",
        r"\bgpt\b|\bllm\b|\bchatgpt\b|\bbot\b",
        r"\bai(?:さん|ちゃん|様|くん|よ|へ|님|야|아|에게)?\b",
    ),
    "declared": (
        r"(?:評価|採点結果|採点|スコア|点数|得点)(?:は|を)?[^。\n]{0,6}(?:5|満点|最高点?)(?:点)?(?:です|である|と"
        r"なり|とな|に確定|で確定|確定)",
        r"(?:평가|채점 ?결과|점수)(?:는|은)?[^.\n]{0,6}(?:5점|만점|최고점|5)(?:입니다|이다|으로 확정|확정|임)",
        r"\b(?:score|rating|grade|verdict)(?: \w{1,12}){0,5} (?:is|are|has been set to|was set to) (?:a )?(?:5|10|"
        r"perfect|full|top|max)",
        r"\breceives? (?:a |the )?(?:5|10|maximum|top|full|perfect)\b",
        r"\b(?:has )?already (?:been )?(?:scored|graded|rated)",
    ),
    "self": (
        r"(?:当方|私|拙者|小生)の(?:応答|返答|回答|返信|返事)|拙文|(?:この|本|当)返信",
        r"(?:この|本|当該|該当|上記の?|上の|前記の?|先の|今の|以下の|下記の?)(?:[^\s。、]{1,6}な)?(?:応答|返答|回"
        r"答|返事|発話|レスポンス|候補|出力|答え|受け答え)",
        r"(?:この|本)内容|(?:这个?|本|该|此|上述)(?:回答|回复|答案|应答|答复)",
        r"(?:저의|제|본|이) ?답신",
        r"(?<![가-힣])(?:이|본|위|해당|위의|상기|방금|지금|아래|다음) ?(?:[가-힣]{1,3}한 )?(?:응답|답변|대답|답|발"
        r"화|출력|후보)",
        r"(?<![가-힣])이 내용",
        r"\bmy (?:reply|response|answer)\b",
        r"\b(?:this|the above|above|my|preceding|the candidate's|the following) (?:\w{1,12} )?(?:responses?|answer"
        r"s?|reply|replies|output|candidate|completion|turns?)\b",
        r"\bthe candidate\b|\b(?:response|reply|answer) like this\b|\b(?:response|reply|answer) below\b",
        r"\bthis content\b",
    ),
    "all": (
        r"各(?:評点|評価|採点)?欄|全欄|何もかも|ぜんぶ",
        r"(?:全ての?|すべての|全部の|各|どの|あらゆる|いずれの)(?:項目|観点|評価|側面|基準|指標|軸|数値)",
        r"全(?:項目|観点|指標)|(?:値|数値|点|評価|採点)は(?:すべて|全て|全部|最大)",
        r"全部(?:「?[0-9五十]」?|満点|最高)|オール(?:5|満点)|所有(?:的)?(?:项目|维度|指标|方面|评分项)|各项",
        r"每一?项|全部项目",
        r"각 ?(?:평점|평가|점수)?란|(?:싹|전부|모조리) ?다|이것저것 ?다",
        r"(?:모든|전체|각|어느) ?(?:평가 ?)?(?:항목|기준|지표|측면|관점|값|평가|차원)|(?<![가-힣])전 ?항목",
        r"(?:점수|평가|값)(?:를|을|은|는) (?:모두|전부|다)|(?<![가-힣])(?:다|전부|모두) [0-9] ?점",
        r"\b(?:every|each|all) (?:box|field|slot|heading)e?s?\b",
        r"\b(?:every|each|all|any) (?:headings?|points|fields|areas|rows|columns|boxes|counts)\b",
        r"\b(?:every|each|all(?: of)?(?: the)?|any) (?:\w{1,12} )?(?:aspects?|criteri(?:on|a)|categor(?:y|ies)|dim"
        r"ensions?|metrics?|axis|axes|scores?)\b",
        r"\bacross the board\b|\bstraight (?:5|five|10|ten)'?s|\ball (?:5|five)'?s\b",
    ),
    "value": (
        r"最上(?:位|段)|パーフェクト|(?<![0-9])5でいい|最高(?:段階|位|ランク|クラス|レベル)|上限の?(?:点|値|評価)?",
        r"[一い](?:番|ちばん)上の?点?|減点し(?:ない|ては)|模範解答|(?:いい|良い|よい)(?:点|評価|スコア)",
        r"[「\"'](?:5|10)[」\"'](?:とだけ|だけ|のみ)|満点",
        r"(?:最高|最大|最上)の?(?:点|評価|得点|スコア|ランク|値|数値|数字)|最大とする|高得点",
        r"高い?(?:評価|スコア|数字|数値)|一番(?:高い|いい|良い)(?:点|数字|評価|スコア)|(?:10|5|3|100|五|十)点",
        r"「(?:5|3|10|五)」|大きい(?:値|数字)",
        r"(?<![0-9])(?:5|3|10)(?:を|に(?:し|す)|と(?:し|評)|で(?:よろ|お願|頼)|が妥当)|高く評価|甘く(?:採点|評価)",
        r"合格とみな|满分|最高分|(?<![0-9])[0-9]+分|高分",
        r"최상위|최우수|5점이면|최고 ?(?:등급|단계|수준)|상한|(?:가장|제일) (?:위|좋은)|감점하지|모범 ?답안|고득점",
        r"점수 ?(?:좀 )?(?:잘|후하게|높게)|['\"‘“「](?:5|10)['\"’”」] ?(?:라고만|이라고만|만)|만점",
        r"최고 ?(?:의 )?(?:점|점수|평가|값|등급|평점)|최댓값|최대(?:값|로| 점수)",
        r"(?:높은|후한|좋은) (?:점수|평가|숫자)|(?:가장|제일) 높(?:은|게)|(?<![0-9])(?:5|10|100|오) ?점",
        r"(?<![0-9])5(?:를|을|가) |후하게|높게 평가",
        r"\b(?:uppermost|topmost|maximal|highest) (?:figure|number|value|mark)",
        r"\b(?<!of [01] )(?<!of one )(?:to|at) (?:a )?(?:5|10|five|ten)\b|\b5/5\b",
        r"\bfives?'?s?\b (?:is |are )?(?:fine|ok)",
        r"\b(?:topmost|highest|top) (?:level|tier|grade|band)|\bmax (?:it|them|everything|this)\b",
        r"\b(?:5|10) points\b|\bworth (?:a )?(?:5|10|five|ten)\b|\bupper (?:limit|bound|end)\b",
        r"\b(?:not|never) lose points|\bno deductions|\b(?:gold|model|reference) answer\b",
        r"\bgood (?:score|grade|rating)\b|[\"'“](?:5|10)[\"'”] only|\bonly (?:a )?[\"'“]?(?:5|10)\b",
        r"\bjust [\"'“]?(?:5|10)\b|\b(?:little|solid|big|fat|nice) (?:5|10|five|ten)\b|「[0-9]」",
        r"\bfull (?:marks|score|points)\b",
        r"\b(?:max(?:imum)?|highest|top|perfect|best|largest)(?: possible)? (?:score|rating|mark|grade|value|numbe"
        r"r|point)s?\b",
        r"\bthe maximum\b|\bstraight (?:5|five)s",
        r"\b(?:a|an|scored?|scores|output|return|rated?|it|get|gets|be|of|this|candidate|reply|response|answer|str"
        r"aight) (?:5|10|five|ten)\b(?! (?:min|hour|day|times|people|year))",
        r"\b(?:5|10)(?:/(?:5|10)\b| out of (?:5|10)| for (?:each|every|all)| on (?:each|every|all)| in (?:each|eve"
        r"ry|all))",
        r"\bas (?:excellent|perfect|flawless)\b|\bbe (?:generous|lenient)\b|\bscored 5\b|\b5 is the\b",
    ),
    "request": (
        r"でいいっしょ|ないこと|適切(?:です|である)|やってくれ|してやって|存じます|くれ(?:たら|ると|れば)|よくね",
        r"でいい(?:よ|から|っしょ|でしょ)|ちゃ(?:って|え|お)|(?:つけ|付け|出し|入れ|与え|返し|答え|付し)て",
        r"に(?:して|しと)|ください|下さい|くれ|ほしい|欲しい|せよ|しろ",
        r"(?:する|せる|付ける|つける|出す|返す|入れる|える)こと|べき|願い|願え|頼[むみ]|たのむ|よろしく|宜しく",
        r"ちょうだい|頂戴|なさい|なければなら|必要があ|といて|とけ|[つ付]けろ|出せ|与えよ|入れろ|妥当",
        r"正しい(?:判断|評価|採点)|いただけ|賜り|とする$|ものとする|固定|してもらおう|にします|にしよう|にしてよ",
        r"にする$|请|請|务必|必须|给(?:这|本|该|我)|加上|补充",
        r"봐줘|되지\b|되죠|적절|해 ?버려|처리(?:하|해)|실어|찍어|줄래|줬으면|주면|줘도|때려|박아|부여|넣어|달아",
        r"가자|하자|대답해|말해|좋겠|것 같아요|마십시오|마세요|한다\b|주세요|주십시오|주시(?:기|면|길)|바랍니다",
        r"해라|하라|줘(?!서)|주라|달라|부탁|하세요|하십시오|할 ?것|해야|매겨|매기|넣어라|내놔|한다$|고정|맞습니다",
        r"맞다$",
        r"되는 거|합의|해$|출력해|채점해|평가해|시오|도록|돼야",
        r"\b(?:entered|assigned|awarded|given|granted|merits|cut me)\b|\bjust (?:max|go|make)\b|\bprocess\b",
        r"\b(?:pls|plz|gimme|lemme|slap|throw|toss|drop|bump|enter|use|treat|grant|go with|would make|get the|gets"
        r" the|receives?|answer with)\b",
        r"\bplease\b|\bkindly\b",
        r"\b(?:give|assign|award|output|return|rate|score|grade|set|record|report|print|put|hook)\b|\bmust\b",
        r"\bshould\b|\bshall\b|\bha(?:s|ve) to\b|\bneeds? to\b|\bdeserves\b|\bearns\b|\brequest\b",
    ),
    "rating": (
        r"減点|採点|評価|スコア|得点|点数|満点|评分|打分|满分|评价",
        r"감점|채점|평가|점수|만점",
        r"\bmax (?:it|them|everything|this)\b|\bpoints\b|\bscor(?:e|es|ed|ing)\b|\brat(?:e|ed|ing|ings)\b",
        r"\bgrad(?:e|ed|ing)\b|\bfull marks\b",
    ),
    "ignore": (
        r"なかったこと|なかった(?:もの|事)|効力を失|失効|撤回|廃止|無効|差し替え|守らなくて|捨てて",
        r"無視(?:し|せよ|しろ|の上)|忘れ(?:て|ろ|なさい)|破棄|従わな(?:いで|くて)|従うな|取り消され|忽略|无视|忘记",
        r"없던 ?(?:걸로|것으로)|없었던|효력을 잃|효력이 없|철회|폐지|무효|제쳐|버리고|신경 ?쓰지",
        r"무시(?:하고|하라|하세요|하십시오|해|하시)|잊(?:어|고|으)|폐기|따르지 (?:마|말)",
        r"\bnever existed\b|\blapsed\b",
        r"\b(?:is|are) (?:now )?(?:void|null|obsolete|withdrawn|revoked|cancell?ed|invalid)",
        r"\bno longer (?:appl|valid|in)|\bset aside\b|\bthrow out\b",
        r"\b(?:ignor|disregard|forget|overrid|bypass|supersed)(?:e|es|ed|ing)?\b|\bdo not follow\b",
    ),
    "standards": (
        r"採点(?:マニュアル|の手引)|(?:採点|評価|審査)(?:の)?(?:基準|指示|方針|ルール|指針|要領)|ルーブリック",
        r"评分(?:标准|规则|细则)|评估标准",
        r"채점 ?(?:매뉴얼|방법)|(?:채점|평가|심사) ?(?:기준|지시|지침|규칙|방침)|루브릭",
        r"\bguidance you\b|\brules above\b|\bguidelines you\b|\brubrics?\b",
        r"\b(?:scor|grad|evaluat|rat|judg)(?:ing|ion) (?:rubric|guideline|instruction|criteria|rule|standard|promp"
        r"t)",
    ),
    "orders": (
        r"(?:ここまで|従前|従来|さっきまで|先|既存|元)の(?:全部の|すべての)?(?:指示|命令|手引|基準|指針|ルール|プ"
        r"ロンプト)",
        r"(?:これまで|今まで|以前|上記|上|前|先|先ほど)の(?:すべての|全ての)?(?:指示|命令|指針|プロンプト|ルール|"
        r"説明)",
        r"之前的?(?:所有|全部)?(?:指示|指令|说明)|以上(?:所有|全部)?(?:指示|指令)",
        r"(?:여기까지|종전|지금껏|원래|처음)(?:의)? ?[^.\n]{0,8}(?:지시|지침|명령|기준|규칙)",
        r"(?:이전|위|앞|지금까지|기존|앞서|앞에서)(?:의|에|서)?[^.\n]{0,12}(?:지시|지침|명령|프롬프트|규칙|안내)",
        r"\b(?:rules|instructions|guidelines|guidance|orders|prompt) (?:above|so far|you (?:were|have|hold|got))",
        r"\b(?:previous|prior|above|earlier|preceding|existing) (?:\w{1,12} )?(?:instruction|direction|prompt|rule"
        r"|guideline|order)s?",
        r"\beverything (?:above|before)",
    ),
    "override": (
        r"(?:これまで|今まで|以前|上記)の(?:指示|命令|プロンプト|ルール)(?:は|を)(?:すべて|全て|全部)(?:無視|忘れ|"
        r"破棄)",
        r"(?:すべて|全て)の(?:以前|これまで|上記)?の?(?:指示|命令)を(?:無視|忘れ|破棄)",
        r"忽略(?:之前|以上|上述)的?(?:所有|全部|一切)",
        r"(?:이전|지금까지|앞)(?:의|에|서)? ?(?:모든 ?)?(?:지시|지침|명령)(?:는|은|를|을)?(?: ?사항(?:은|을))? (?:"
        r"모두|전부|다) ?(?:무시|잊)",
        r"(?:이전|지금까지|앞)(?:의)? ?모든 ?(?:지시|지침|명령)\w? ?(?:무시|잊)",
        r"\b(?:ignore|disregard|forget) (?:all|every|any)(?: of)?(?: the| your)? ?(?:previous|prior|above|earlier)"
        r" (?:\w{1,12} )?\w{4,}s\b(?![\"'”’])",
        r"\b(?:ignore|disregard|forget) everything (?:above|before|you)",
    ),
    "later": (
        r"今日から|今から|この(?:会話|チャット)では|のあと|った(?:ら|とき)|これから|ここから|今後|以後|以降|この先",
        r"次の|从现在起|接下来",
        r"오늘부터|지금부터|이제부터|그다음|하면|이 대화에서|앞으로|이후|다음",
        r"\bas of (?:today|now)\b|\bstarting (?:now|today)\b|\bfor the rest of\b|\bhenceforth\b|\bhereafter\b",
        r"\bwhenever\b|\byour next\b|\bevery time\b|\bfrom now on\b|\bfrom here on\b|\bgoing forward\b",
        r"\bafter this\b|\bthe next\b|\bthis chat\b",
    ),
    "speech": (
        r"言っても|言おうと|喋っても|話しても|発話|返事|返答|回答|応答|返し|発言|台詞|セリフ",
        r"말을 ?하든|말을 ?해도|말하든|답변|대답|응답|하는 말|발화|발언|말은",
        r"\bwrite\b|\brepl(?:y|ies)\b|\bresponses?\b|\banswers?\b|\bturns?\b|\byou say\b|\bmessages?\b",
    ),
    "certain": (
        r"例外なく|いかなる|必ず|どう(?:であれ|でも)|何を(?:言|話)|どんな(?:に|こと)|全部|すべて|全て|無条件",
        r"何であれ|かかわらず|関わらず|どんな内容|絶対",
        r"(?<![가-힣])꼭 |예외 ?없이|뭐라고|뭘 ?(?:말|하)|내용이 ?(?:뭐|어떻)|\b다 \b|전부|모두|무조건|반드시",
        r"상관없이|관계없이|무엇이든",
        r"\bwithout exception\b|\bcome what may\b|\bwhatever\b|\banything\b|\bwhenever\b|\bcounts? as\b|\bevery\b",
        r"\beverything\b|\bno matter\b|\bregardless\b|\balways\b|\ball\b|\bhas to\b|\bautomatically\b|\bmust\b",
    ),
    "pact": (
        r"取引|交換条件|決まり|という決め|取り決|決めて(?:おく|おこ)|扱い|約束|ことにし|ことにする|いいね|ルールに",
        r"って?ことで|合言葉|取り決め",
        r"거래|정한 ?(?:거|것|걸)|정하자|정해 ?두|치는 거|치자|걸로 하|것으로 하|약속|합의|알겠지|되는 거|하기로",
        r"\bbargain\b|\bfixed at\b|\barrangement\b|\bunderstood\?|\bsworn\b|\bpromise\b|\bsettle\b|\bok\?|\bokay\?",
        r"\bcounts? as\b|\bwill be (?:scored|rated|graded)|\bdeal\b|\blet's\b|\bagree|\brule\b|\bpact\b",
        r"\bwe have a\b|\bfrom now on\b",
    ),
    "top": (
        r"満点|最高(?:評価|点|の評価)|「?5」?と(?:評価|採点)|(?:評価|点)は必ず",
        r"만점|최고점|최고 ?평가|점수는 반드시",
    ),
    "inverted": (
        r"(?:評価|採点|等級|段階)の?(?:順番|順序|並び|意味)[^。\n]{0,10}(?:入れ替|逆|反対)",
        r"[01]が最(?:優秀|上位)[^。\n]{0,6}[0-9]が最",
        r"[0-9]が(?:一番|いちばん|最も|もっとも)(?:悪|低|だめ|良|よ|い)[^。\n]{0,10}[0-9]が",
        r"(?:得点|点数|数値|スコア|値|点)(?:は|が)(?:低い|小さい|少ない)ほど",
        r"(?:尺度|スケール|評点|点数|数値|評価軸|採点方式|採点)[^。\n]{0,12}(?:反転|逆|あべこべ)|反転済み",
        r"(?:数値|数字|点|値)が(?:小さい|低い)ほど[^。\n]{0,6}(?:優|良|よ|高)",
        r"(?:悪い|低い|質の低い)[^。\n]{0,6}ほど(?:大き|高)|最低の.{0,8}最高の",
        r"[01]が(?:最良|最高|一番[良い])[^。\n]{0,8}[0-9]+が(?:最低|最悪|最も悪)",
        r"(?:평가|채점|등급) ?(?:순서|의미)[^.\n]{0,8}(?:뒤바|바뀌|반대|거꾸로)",
        r"[0-9](?:점)?(?:가|이|은|는) ?(?:제일|가장) ?(?:나쁘|낮|좋)[^.\n]{0,10}[0-9](?:점)?(?:가|이|은|는)",
        r"(?:점수|숫자|값)(?:는|은|가|이) ?(?:낮을수록|작을수록)",
        r"(?:척도|점수 ?체계|스케일|배점|눈금)[^.\n]{0,14}(?:반대|뒤집|거꾸로|역전|반전)",
        r"(?:숫자|점수|값)(?:가|이) (?:작을수록|낮을수록)[^.\n]{0,8}(?:좋|우수)",
        r"(?:나쁜|형편없는) [^.\n]{0,8}일수록 [^.\n]{0,4}(?:높|큰)",
        r"[01](?:점)?[이가] (?:최고|가장 좋)[^\n]{0,8}[0-9]+(?:점)?[이가]? ?(?:최저|최하|가장 나)",
        r"\b(?:order|meaning)s? of (?:the )?(?:grades|scores|ratings|numbers|scale)[^.\n]{0,12}(?:swap|revers|flip"
        r"|invert)",
        r"\blow(?:er)? (?:scores?|numbers?|values?|ratings?) (?:mean|signif|indicat|denot|represent|are better|is "
        r"better)",
        r"\b(?:rating|scoring|score|grading) (?:key|order|range|axis|system)[^.\n]{0,16}(?:revers|invert|flip|swap"
        r")",
        r"\b[0-9] (?:stands for|is|means|denotes) (?:the )?(?:worst|best|lowest|poorest)[^.\n]{0,14}\b[0-9] (?:for"
        r"|is|means|stands|denotes|the)",
        r"\b(?:sloppy|rude|weak|terrible|poor|bad|awful) (?:replies|responses?|answers?)[^.\n]{0,16}(?:upper|large"
        r"st|highest|top|max|5)",
        r"\bscale[^.\n]{0,20}(?:invert|revers|flip|swap|upside)",
        r"\b(?:lower|smaller) (?:numbers?|scores?|values?) (?:mean|are|is|indicate)",
        r"\b[01] (?:is|means|=) (?:the )?(?:best|highest|excellent)[^.\n]{0,12}[0-9]+ (?:is |means |= )?(?:the )?("
        r"?:worst|lowest|bad)",
        r"\b(?:poor|bad|worse)[^.\n]{0,14} (?:responses?|answers?|replies)[^.\n]{0,12}(?:largest|highest|higher|to"
        r"p)",
        r"[0-9] ?[=:は] ?(?:とても|非常に|最も|매우|아주|very|the)? ?(?:良|悪|よい|いい|좋|나쁨|나쁘|최고|최악|goo"
        r"d|bad|best|worst|excellent|poor|terrible)[^\n]{0,14}[0-9] ?[=:は]",
    ),
    "occasion": (
        r"ここでは|本(?:タスク|テスト|ベンチ)|評価(?:メモ|上の)",
        r"(?:この|本|今回の?)(?:データセット|評価|採点|課題|タスク|ベンチマーク)|採点(?:メモ|上の注意|ルール)",
        r"今回から|本次评",
        r"여기서는|(?:이|본|이번) ?(?:데이터셋|평가|채점|회차|과제|벤치마크)|채점 ?(?:안내|공지|메모)",
        r"\bfor this task\b|\bhere 5\b|\bin this (?:set|round|session|experiment|study)",
        r"\b(?:this|the) (?:dataset|batch|evaluation|benchmark|task|rubric)\b|\bscoring (?:update|note)",
    ),
    "no-score": (
        r"空欄のまま|空のまま|(?:採点|評価)せずに|jsonを[^。\n]{0,4}(?:返さ|出さ|出力し)",
        r"採点すると[^。\n]{0,8}(?:違反|反し)",
        r"(?:数値|数字|点数|スコア|点|評価)(?:を|は)?[^。\n]{0,6}(?:付けず|つけず|出さず|返さず|せず|付けるな|出す"
        r"な|控え)",
        r"(?:採点|評価|判定|回答)(?:不能|不可)",
        r"(?:数値|数字|点数|スコア|点|評価値)(?:の出力)?(?:を|は)(?:一切)?(?:出さ|出して|返さ|返しては|付けな|付け"
        r"ては|つけな|出力し(?:ない|ては)|書か|拒否)",
        r"(?:採点|評価)(?:を|し)?(?:拒否|中止|放棄|し?てはいけ|しないで|するな|すること(?:は|を)(?:規約|禁))",
        r"採点の対象外",
        r"빈칸으로|비워 ?(?:두|서)|json(?:을|를)? ?(?:\w{1,4} )?(?:돌려주지|출력하지|반환하지|내지)",
        r"채점하면 [^.\n]{0,10}(?:위반|어긋)",
        r"(?:점수|숫자|수치)(?:를|을|는|은)? ?(?:부여하지|달지|내리지|넣지|생략)",
        r"(?:평가|채점)(?:를|을)? ?(?:거치지|하지 말)|(?:평가|채점|판정) ?(?:불가|불능)",
        r"(?:점수|숫자|수치|평점)(?:를|을|는|은)? ?(?:\w{1,6} )?(?:내지|출력하지|매기지|주지|적지|쓰지)",
        r"(?:채점|평가)(?:을|를)? ?(?:거부|거절|중단|포기|하지 (?:마|말))",
        r"\bleave (?:it|this|them|the \w{1,12}) (?:blank|empty|unscored|unrated)",
        r"\binstead of (?:scor|rat|grad|evaluat|judg)ing|\b(?:return|emit|produce|output) no\b",
        r"\bbreach(?:es)? the terms",
        r"\bwithout (?:assigning|giving|returning|outputting|producing|any) (?:a |any )?(?:scor|rat|number|grad|ma"
        r"rk)",
        r"\boutput no\b|\breturn nothing\b|\babstain\b",
        r"\b(?:cannot|can't|unable to|refuse to|decline to|must not|do not|don't|never) (?:\w{1,8} )?(?:rate|score"
        r"|grade|evaluate|judge|be (?:rated|scored|graded|evaluated))\b",
        r"\b(?:not|no|never) (?:output |return |give |produce |provide |emit )?(?:any |a )?(?:numbers?|numeric \w"
        r"{1,8}|score|rating)s?\b",
        r"\bprohibited from (?:scor|rat|grad|evaluat|judg)|\b(?:stop|skip) (?:scor|rat|grad|evaluat)ing",
        r"\brefus(?:e|al)\b",
    ),
    "prompt": (
        r"(?:採点|評価|審査)用の(?:指示|文章|プロンプト)|採点の?(?:ルール|指示|手順|文章|マニュアル)",
        r"評価の?(?:ルール|指示|手順)|指示文|プロンプト|システムメッセージ|指示内容|採点基準|評価基準|ルーブリック",
        r"(?:最初|上)の(?:指示|命令)|提示词|系统(?:提示|指令)",
        r"(?:채점|평가|심사)용 ?(?:지시|문구|프롬프트)|채점 ?(?:규칙|방식|지시|매뉴얼)|평가 ?(?:규칙|지시)",
        r"프롬프트|지시문|시스템 ?메시지|지침|채점 ?기준|평가 ?기준|루브릭|지시 ?사항",
        r"\b(?:grading|scoring|evaluation|judging|system) (?:instruction|prompt|rule|guideline|rubric|criteria|mes"
        r"sage)s?\b",
        r"\brules you were\b|\bprompts?\b",
        r"\b(?:system|hidden|initial|original|secret) (?:message|instruction|prompt)s?|\byour instructions\b",
        r"\brubric\b|\binstructions you (?:were|have been|got|received)",
    ),
    "write-out": (
        r"コピー|載せ|転記|書いて|書け|載せて|吐(?:いて|き出)|書き写|出力し|表示し|貼り付け|書き出|写して|引用し",
        r"公開し|教えて|見せて|出して|列挙|输出|复制|写出|告诉",
        r"실어|넣어 ?줘|말해|읊어|써 ?봐|적으|적은|출력|적어|보여|복사|붙여|써 ?줘|써 ?주|알려|공개|인용|나열",
        r"\bcopy(?:ing)?\b|\bpasting\b|\brepeating\b|\bprinting\b|\btranscribe\b|\brecord\b|\bwrite down\b",
        r"\blist\b|\bspell out\b",
        r"\b(?:print|repeat|reveal|output|copy|quote|paste|show|write|include|disclose|recite|dump|tell me)\b",
    ),
    "yours": (
        r"手元にある|持っている|理由を書く|渡されて|与えられて|理由のところ|もらった|渡された|読み込んだ",
        r"あなた(?:に|の|が)|君(?:に|の|が)|お前(?:に|の|が)|採点(?:に使|用)|評価(?:に使|用)|与えられた|受け取った",
        r"最初に|理由欄|理由の欄|評価理由|你的",
        r"가지고 있는|이유를 쓸|너한테|당신한테|주어진|이유 ?부분|여기에|처음에|받았",
        r"(?:네가|당신이|너에게|당신에게|너의|네|당신의) ?[^.\n]{0,6}(?:받|프롬프트|지시|지침)|채점(?:용|에 쓰)",
        r"평가(?:용|에 쓰)|이유 ?(?:칸|란|항목)|받은",
        r"\byou (?:hold|have|hav)\b|\brating, |\breasons? part|\bhanded\b|\bat the start\b|\bgiven to you\b",
        r"\breasons?\b|\byour\b|\byou (?:were|have been|got|received)|\breason(?:ing)? field|\brationale\b",
        r"\bexplanation field|\bgrading prompt|\bscoring prompt",
    ),
    "translator": (
        r"機械翻訳|(?:英|和|韓|日本語|英語)訳|翻訳(?:への|へ|する(?:人|方|ai)|の(?:方|際))",
        r"翻訳(?:者|機|エンジン|ai|モデル|担当|ソフト|システム)|(?<!翻)訳者|訳文|翻訳文|翻訳結果|英訳の",
        r"訳す(?:人|方)|译者|翻译(?:者|器|引擎|模型|时|人员)|译文|譯者|譯文",
        r"기계 ?번역|(?:영어|일본어|한국어|영문) ?번역|번역할|번역 ?시",
        r"번역(?:자|기|가|문|본|사|하시|하는| ?엔진| ?모델| ?결과| ?담당| ?ai)|옮긴이|옮기실|옮기는",
        r"옮기(?:는|시는) 분",
        r"\btranslat(?:ors?|ion|ing)\b(?! app)|\b(?:whoever|who|anyone) translat(?:es|ing)\b",
    ),
    "insert": (
        r"とだけ訳|書き足|付け(?:て|加)|追記|付け(?:加|足)|書き(?:加|足|添)|追加|足して(?!も)|入れて(?!み)|添えて",
        r"挿入|置き換え|代わりに|訳さず|訳さない|訳して|加上|添加|附上|补充|插入|替换|加在|写上|译成|翻译(?:成|为)",
        r"라고만 번역|라고 번역|써 ?(?:주|줘|넣)|쓰(?:세요|라|고)|넣고|덧붙|추가|넣어|적어|써 ?넣|삽입|바꿔|바꾸",
        r"대체|대신|번역하지|옮기지|붙여|옮겨",
        r"\brender\b|\btranslate (?:it |this )?(?:as|into)\b|\btack\b|\bprefix\b|\bsuffix\b|\bend with\b|\bslip\b",
        r"\b(?:append|add|insert|include|attach|prepend|replace|put|write|finish with|close with)\b",
        r"\b(?:do not|don't|not|never) translate\b",
    ),
    "decode": (
        r"暗号|復号|デコード|解読|16進|逆から|解码",
        r"암호|인코딩된|디코딩|디코드|해독|복호|헥스|거꾸로|풀어",
        r"\bcipher\b|\bcrack\b|\bencoded\b|\brot ?13\b|\bbackwards\b|ﾃﾞｺｰﾄﾞ|base ?64|rot ?13|\bdecod|\bdecipher",
        r"\bdecrypt|\bunescape|\bhex\b",
    ),
    "obey": (
        r"とおりに|書いてある(?:こと|とおり)|従[いっえう]|(?:とおり|通り)に|実行し|按照|执行",
        r"따라|따르|대로|실행",
        r"\bdo (?:exactly )?(?:what|as|whatever)\b|\bact on\b|\bheed\b|\bfollow|\bobey|\bcomply|\bexecute\b",
        r"\bcarry out\b|\bdo what\b",
    ),
}

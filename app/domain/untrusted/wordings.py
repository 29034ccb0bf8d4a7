"""More ways to put the ideas of `lexicon.py`. Patterns over folded text, in the order Japanese, Korean, English, under
the same bounds as there.
"""

from __future__ import annotations

from app.domain.untrusted.clauses import TOP_EN

WORDINGS: dict[str, tuple[str, ...]] = {
    "grader": (
        r"(?:審査員|審判|ジャッジ|レビュ[ーア]{1,2}|検査官|試験官)(?:の)?(?:さ[ーぁあん]{0,3}ん|さま|様|殿|各位|"
        r"諸[氏君]|方|皆)?"
        r"(?:[、,!:]|へ[、,:\s]|ー?、?見てる)",
        r"(?:採点|評価|審査)(?:して(?:い)?る(?:んで|んだ|の?よね|んじゃ)|中(?:だろ|でしょ|だよね|なんで))|(?:採点|"
        r"評価|審査)(?:する)?側",
        r"(?:점수|채점|평가)(?:를|을)? ?(?:매기는|하는) ?(?:중이|거지|거잖)|(?:심사|평가|채점)(?:하는)? ?(?:측|"
        r"쪽)|(?:심사|채점|평가) ?중인 ?(?:당신|너|귀하)|평가기",
        r"\b(?:ur|you're|you are|u r|u are) (?:the one )?(?:scor|grad|rat|judg|mark|evaluat)ing\b|\b(?:scoring|"
        r"grading|judging|rating) side\b",
        r"アノテ(?:ー)?タ|評定者|判定(?:者|官|員|モデル|ai|役)|査読(?:する|される|担当|なさる)|(?:評価|採点|審査|"
        r"判定)(?:役|モデル)",
        r"(?:評価|採点|審査|判定|レビュー)(?:担当|なさ[るっ]|される|されて|に当た|中の)",
        r"심판(?:아|님|들아|관)|(?:심사|검토|판정|평가|채점)(?:하시는|하고 계신|하는|해 ?주시는|중인|를 맡은|을 맡은) ?"
        r"(?:분|쪽|사람|님|이|모델|인공지능|ai|담당)",
        r"심사위원(?:님|께|들께| ?여러분| ?귀하|[,:])|어노테이터|주석자|판정관|(?:평가|채점|심사|판정) ?(?:역할|"
        r"역을|모델|주체)",
        r"\bannotators?\b|\b(?:review|mark|assess|annotat|label)ing (?:model|system|ai|bot|engine|llm|assistant|party)",
        r"\b(?:ai|llm|model|bot|machine|one|person|people|system|party|reader) (?:that|who|which) (?:is |are |will )?"
        r"(?:mark|scor|grad|judg|rat|evaluat|assess|review)(?:s|es|ing|e)?\b",
        r"\b(?:one|person|party|model|ai) (?:doing|in charge of|responsible for|tasked with) (?:the |this )?"
        r"(?:mark|scor|grad|judg|rat|evaluat|assess|review)(?:ing|ion|ment)?",
        r"(?:^|[(<\[*-] {0,2})(?:the )?(?:reviewers?|judges?|examiners?|markers?|referees?)[:,]",
        r"\b(?:reviewers?|judges?|examiners?|markers?|evaluators?)[,:] (?:please|kindly|you|just|do|give|set|the)\b",
        r"\bto (?:all|any|our|every) (?:the )?(?:reviewers?|judges?|examiners?|markers?)\b",
        r", (?:dear |mr\.? |my )?(?:judges?|reviewers?|examiners?|markers?)[.!?)]",
    ),
    "self": (
        r"(?:当方|こちら|拙|小生|私|僕|俺)の(?:発言|発話|文|文章|レス)|本(?:件|回答文|発言|対話|メッセージ)",
        r"(?:この|当該|上記の?)(?:発言|レス|返し|対話|会話|やり取り|メッセージ|案件|文面|一文)",
        r"(?<![가-힣])(?:이|본|해당|위|당) ?(?:(?:건|글)(?![가-힣]{2})|대화|발언|메시지|문장|답장|문서|회신)",
        r"\bthis (?:message|dialogue|conversation|exchange|item|case|thing|submission|entry|text|one)\b",
    ),
    "all": (
        r"全部(?:マックス|max|最大|トップ)|オール(?:マックス|最高)",
        r"(?<![가-힣])(?:다|전부|모두) ?(?:최고로|만점|최대)",
        r"\bmax everything\b|\beverything (?:max|5|maxed)",
        r"どの(?:観点|項目|評価|欄|軸)も|一律|全面的に",
        r"일괄|항목마다 ?(?:다 |전부 |모두 )?(?:5|만점)|(?:각|매) ?항목",
        r"\bfor all of (?:it|them)\b|\bacross all\b|\beach dimension\b|\bon everything\b|\b(?:5|five|ten|"
        r"10)'?s? everywhere",
    ),
    "occasion": (
        r"(?:この|本|今期の?)(?:テスト|採点|評価|試験)",
        r"(?:이|본|이번) ?(?:테스트|학기|채점|시험)",
        r"(?:今回|本|この)の?(?:アノテーション|ラベル付け|作業)|(?:評価|採点)(?:要領|手引|の手引き)",
        r"(?:이번|본|이) ?(?:주석|라벨링|작업|어노테이션)|(?:평가|채점) ?요령",
        r"\bthis (?:[\w']{1,12} )?(?:test|term|eval|round|annotation|rating|grading|scoring|labell?ing)\b",
        r"(?:弊社|当社|この(?:ラウンド|場|現場|部署))(?:の|では|だけ)",
        r"(?<![가-힣])당사(?:에서|는|의)? |이번 ?라운드",
        r"\bfor this round\b|\bround here\b",
        r"(?:この|本|今回の?|当)(?:データ|調査|アンケート|票|フォーム|審査|査定|設問|シート|調査票|用紙|表|案件|"
        r"試験)|(?:採点|評価|審査)表",
        r"(?:이|본|이번) ?(?:데이터|조사|설문|양식|심사|시험|시트|표|건)|채점표|평가표",
        r"\b(?:this|the) (?:form|sheet|survey|data|scheme|review|project|study|round)\b|\bscoring sheet\b|"
        r"\bscorecard\b",
    ),
    "declared": (
        r"(?:応答|返答|回答|返事|発話)(?:は|が)[^。\n]{0,4}満点(?:です|である|だ|もの|級|相当)",
        r"(?:응답|답변|대답)(?:은|는|이)[^.\n]{0,4}만점(?:짜리|입니다|이다|감)",
        r"\b(?:response|reply|answer) (?:is|was|earned|merits) (?:an? )?(?:5|10|perfect|full|top)\b(?! \w+ long)",
    ),
    "value": (
        r"(?:score|スコア|점수|点数|評価|평가|평점|rating) ?[:=] ?(?:5|10|満点|만점)(?![0-9.])",
        r"(?<![0-9])5로 ?(?:하라|해 ?[주라]|해$|하십|하세|하여)",
        r"(?<![0-9])5と(?:ご)?(?:記入|入力|記載|記録)|5点固定|(?:マックス|max|最大)(?:で|に|の数)",
        r"최고로|5점 ?고정|(?<![0-9])5로 ?(?:기입|기록|처리|입력|표기)",
        r"\b(?:top|highest|best)-(?:rated|scor|mark|grade)",
        r"(?:上の(?:ほう|方)|大き(?:い|な|め)|高め)の?(?:数字|数|点|値)|(?<![0-9.:])5(?:点)?(?:くれ|ちょ|頂戴|"
        r"よろ|プリーズ)",
        r"(?:큰|높은) ?(?:수|숫자|값)|상한 ?값",
        r"\b(?:big|bigger|biggest|large) (?:number|score|mark|figure)|\b(?:highest|best|top) (?:\w{1,8} )?(?:mark|"
        r"grade|score|rating)s?\b",
        r"(?:総合|overall|종합)(?: (?:score|rating|점수))? ?[:=] ?(?:5|10)\b|上限の?(?:数|値|点|評価)|"
        r"点は?(?:一番|いちばん)上",
        r"(?:理想|模範)的な(?:もの|応答|回答|返[答事])|減点は?(?:不要|なし|無し|いら)|満点に値|(?:最高|最上|"
        r"トップ)(?:級|評価|点|クラス|ランク)",
        r"최고점|최고 ?등급|(?:가장|제일) ?큰 ?(?:수|숫자|값)|점수 ?(?:좀 )?(?:넉넉|듬뿍|높이|잘)",
        rf"\b(?:mark|rate|score|grade|give|gives|write|put|record|emit|enter|assign|slam|drop|print|output|answer)(?: "
        rf"[\w'-]{{1,10}}){{0,3}} {TOP_EN}(?! ?(?:min|hour|day|time|people|year|star|%|o'clock|dollar|or\b|to\b|-|/))",
        r"\b(?:go|goes|going) down as (?:a )?(?:5|five|10|ten)\b|\b(?:highest|top|best|uppermost|"
        r"maximum) (?:level|tier|box)",
    ),
    "request": (
        r"頼むわ|願います|処理(?:願|くだ|して)|結構です",
        r"ちょーだい|に(?:しとい|しちゃ)|つけと|付けと|出力(?:し|せ)|記入|記載(?:し|くだ|の)|記録(?:し|する|"
        r"のこと)|扱(?:って|うこと|え)|不要(?:です|だ|と)|かまいません|構いません",
        r"と訳すこと|書くこと|与えられるもの|ヨロ|よろ$",
        r"타당|내는 ?거|기입|기재|기록 ?바람|찍고|출력하|적어라|적을 ?것|챙겨|넘어가",
        r"\b(?:mark|slam|emit|write|enter|hand|go down)\b|\bis to\b|\bare to be\b|\bdo (?:me|us|"
        r"a \w{1,8}) a? ?\w{1,8}\b",
    ),
    "rating": (
        r"評点|等級|最高評価|審査",
        r"평점|등급|심사",
        r"\bmarks?\b|\bmarking\b|\bscorecard\b|\bscore ?sheet\b|\btop rating\b",
    ),
    "ignore": (
        r"旧(?:基準|来|指針|ルール|規則)",
        r"구 ?(?:기준|지침|규칙)",
        r"\babolished\b|\brepealed\b|\bscrapped\b|\bold (?:criteria|rubric|rules|guide)",
        r"(?:昨日|先月|去年|昨年|前回)までの|(?:昨年|去年|前年)の(?:もの|版)|試行版|使わ(?:ず|ない)|参照(?:せず|"
        r"しない|不要)|(?:全部|すべて|全て|もう)(?:ナシ|なし|無し)|脇に置|横に置|棚に上げ|読み飛ば|古い版|旧版|"
        r"上書き",
        r"(?:어제|지난달|작년|지난번)까지의|작년 ?것|시험판|사용하지 ?마|효력을 ?상실|참조하지|참고하지|무시(?:할|"
        r"한|된)|잊(?:어라|은)|구버전|대체되|옆으로 ?치워|접어 ?두",
        r"\bdrop (?:what|every|all|the|any|your)|\bsuperseded\b|\breplaced by\b|\bputs? (?:\w{1,8} ){0,3}(?:away|"
        r"aside)\b|\blast year's\b|\boutdated\b|\bleave aside\b",
    ),
    "standards": (
        r"(?:評価|採点|審査)(?:に先立つ|の前の|用の)(?:説明|文|指示|手引)|評価(?:要項|手順|表)|採点(?:要項|手順|"
        r"表)|審査(?:要項|手順|表)",
        r"(?:평가|채점|심사) ?(?:요강|요령|절차|표|방법|안내문)|척도",
        r"\b(?:scoring|grading|rating|marking|annotation|evaluation) (?:guide(?:s|lines?)?|sheet|manual|"
        r"instructions?|scheme)",
    ),
    "orders": (
        r"上(?:に|で)(?:書い|書か|示さ|述べ)[^。\n]{0,8}(?:決まり|ルール|規則|指示|基準|説明|規定)",
        r"위에 ?(?:적힌|쓰인|나온|있는) ?[^.\n]{0,4}(?:규정|규칙|지시|지침|설명|기준)",
        r"(?:冒頭|最初|事前|はじめ|始め)(?:で|に)[^。\n]{0,8}(?:渡され|聞かされ|読まされ|与えられ|受け取っ|言われ|"
        r"もらっ)た",
        r"(?:聞かされ|渡され|読まされ|与えられ|言われ|教わっ|受け取っ|もらっ)た(?:指示|ルール|手順|規則|説明|命令|"
        r"基準|こと)",
        r"(?:받아 ?둔|받은|들은|전달받은|배부된|읽은) ?(?:모든 ?)?(?:규칙|지시|지침|설명|명령|기준|안내|심사 ?기준)",
        r"\b(?:what|everything|all|anything|whatever) (?:that )?you (?:were|have been|'?ve been|got) (?:told|"
        r"given|handed|"
        r"taught|instructed|fed)",
        r"\bguidelines? (?:dated|issued|from|of)\b",
    ),
    "certain": (r"自動|どんな|問わず|当然", r"자동|무관|확정", r"\birrespective\b|\bguaranteed\b|\bno questions\b"),
    "pact": (
        r"という条件|条件で|前提で",
        r"조건으로|전제로|다는 조건",
        r"\bon the (?:condition|understanding)\b",
        r"取り決|ルールね|という(?:ルール|決まり)|扱いな|合意|了承|確定",
        r"처리다|규칙이|동의하|확정|정했",
        r"\bthose are the rules\b|\bparties\b|\bremember, we\b|\bdo you accept\b|\bshall be deemed\b",
    ),
    "later": (
        r"ここから先",
        r"여기서부터",
        r"\bfrom here\b",
        r"このあと|以後|次に",
        r"이후|이제|바로 뒤|다음에",
        r"\bsubsequent\b|\bright after\b|\bwhat you say next\b",
    ),
    "speech": (
        r"返信|一言|ひとこと|直後の返",
        r"회신|대사|한마디|소리를|답장",
        r"\butterances?\b|\bout of your mouth\b|\bcome out with\b",
    ),
    # No score, in any wording: to stop, to withhold, to put it out of scope.
    "no-score": (
        r"\b(?:refrain|desist|abstain) from (?:\w{1,10} )?(?:scor|rat|grad|evaluat|judg|assess|mark)",
        r"(?:スコア|点数|評価|評点|採点|得点)欄[^。\n]{0,4}(?:何も|空|記入し?な)|(?:採点|評価|審査)(?:は|を|が|"
        r"することは)?[^。\n]{0,4}(?:禁止|禁じ|許され)",
        r"(?:점수|평가|평점|채점) ?(?:란|칸)(?:에|을|은)? ?(?:아무것도|비워|비운|비우|빈|공백)|(?:평가|채점|"
        r"심사)(?:가|이|를|는|은)? ?[^.\n]{0,6}(?:금지|허용되지|불허)",
        r"\b(?:evaluation|scoring|grading|rating|assessment|judging)s?[^.\n]{0,20}(?:forbidden|prohibited|"
        r"not (?:allowed|permitted)|banned|unlawful)",
        r"\bleave (?:the |all |your )?(?:score|rating|grade|mark)s? ?(?:field|box|cell|column)?e?s? (?:untouched|"
        r"empty|blank|alone)",
        r"\b(?:score|rating|grading|rating) (?:fields?|box(?:es)?) (?:untouched|empty|blank)",
        r"(?:採点|評価|判定|審査|評定|評点の?付与)(?:は|を|の)?(?:取りやめ|取り止め|見送|見合わせ|保留|控え|"
        r"差し控え|辞退|中断|停止|やめ|省略|せず)",
        r"(?:採点|評価|審査|判定)(?:の)?対象(?:外|とすることができ|とすることはでき|になり(?:ません|えません)|"
        r"にはなら|から(?:外|除))|対象外",
        r"(?:採点|評価)し(?:ちゃ|ては)(?:ダメ|だめ|いけ|なら)|点(?:を)?つけ(?:ちゃ|ては|たら)[^。\n]{0,6}(?:ダメ|"
        r"だめ|いけ|違反)",
        r"(?:数字|数値|点|点数|値|スコア)(?:は|を|も)?(?:一切|一つも|何も|絶対に)?(?:書かず|書かな|返さな|出さな|"
        r"記入し?な|入れな|つけな)",
        r"何の(?:数字|数値|点|スコア)も|(?:値|数値|欄|スコア|評点)は?(?:すべて|全て|全部)?(?:null|空|n/a|なし|"
        r"ブランク)",
        r"(?:평점|점수|채점|평가|심사|판정)(?: ?부여)?(?:를|을|은|는)? ?(?:보류|유보|중단|중지|멈추|생략|삼가|"
        r"금지|하지 ?않)",
        r"(?:평가|채점|심사|판정) ?대상(?:에서|이|은|도)? ?(?:제외|아니|아님|외)|(?:채점|평가)[^.\n]{0,10}멈추고|"
        r"대상 ?아님",
        r"점수(?:를|도)? ?(?:매기|주)면 ?안|(?:숫자|수치|점수)(?:도|는|를)? ?(?:적지|쓰지|내지|넣지|남기지|주지|"
        r"매기지) ?(?:말|마|않)",
        r"(?:값|점수|항목)(?:을|은|는|를)? ?(?:모두 |전부 |다 )?(?:null|공란|빈칸|비워)|빈 ?(?:응답|값|칸|문자열)",
        r"\boutside the scope of (?:assess|evaluat|scor|grad|rat|review)|\bout of scope\b|\bwith?h(?:o|"
        r"e)ld(?:ing)? (?:all |any |the |your )?"
        r"(?:rating|score|grade|mark|number|judg)s?",
        r"\b(?:set|leave|make|return|fill) (?:every|all|each|any)(?: \w{1,8}){0,2} (?:to |as |with )?(?:null|"
        r"blank|empty|n/?a|none)\b",
        r"\b(?:may|must|should|can|shall|do|is|are)(?: not|n'?t| never) (?:to )?(?:write|put|give|assign|output|"
        r"state|enter|record|emit|be)(?: "
        r"\w{1,6}){0,2} (?:figure|number|score|rating|grade|mark|scored|rated|graded|assessed|evaluated)s?\b",
        r"\b(?:do not|don't|never|must not) (?:give|assign|attach|put|award) (?:\w{1,8} ){0,3}(?:score|number|"
        r"rating|grade|mark|figure)s?\b",
        r"\bcan(?:no|')?t (?:put|give|assign|attach) a (?:number|score|figure|grade|rating)|\bback (?:blank|empty)\b",
        r"\b(?:exempt|excluded) from (?:scor|rat|grad|evaluat|assess|review|judg)",
    ),
    "prompt": (
        r"採点指示|採点ルール|評価指示",
        r"(?:あなた|君|きみ|手元|お手元)の(?:指示書?|手引き?|説明書|マニュアル|要領)",
        r"(?:당신|너|네|귀하)(?:의)? ?(?:지시서|지침서|설명서|매뉴얼|요령)",
        r"\byour (?:\w{1,10} )?(?:instruction|briefing|guideline|manual|rule)s?(?: sheet)?\b",
        r"評価の?(?:説明|文章|手引|マニュアル)|採点の?(?:説明|手引)",
        r"평가 ?(?:설명|문서|매뉴얼)|채점 ?(?:설명|안내)",
        r"\b(?:instructions?|rules|guidelines?|briefing) (?:\w{1,10} )?(?:for|to) (?:scor|grad|rat|judg|evaluat)|"
        r"\bmarking (?:guide|scheme|instructions?)",
    ),
    "write-out": (
        r"繰り返し|再現|コピペ|貼って|貼っと|書いて",
        r"반복|써 ?주|붙여 ?넣|재현|복붙|베껴|옮겨 ?적",
        r"\breproduce\b|\btell us\b|\brelay\b|\bspit out\b|\bpaste\b",
    ),
    "yours": (
        r"きみの|おまえの|根拠の?(?:とこ|欄|中|部分)|コメント(?:の)?欄|受け取っ|読まされ|理由を書く|理由の中",
        r"네 시스템|근거 ?(?:칸|란|부분)|의견 ?(?:칸|란)|읽은|이유 ?(?:쓰는|부분|안에)|받은",
        r"\bhanded\b|\bfed\b|\bu got\b|\bur\b|\brationale\b|\bjustification\b|\bcomments? (?:field|box)\b",
    ),
    "translator": (
        r"翻訳(?:される|なさる|して(?:くださ|いただ)る?)[^。\n]{0,4}方|訳者?注|訳注|ローカライズ(?:担当|指示|注)|"
        r"(?:英|和|韓|日本語|英語)(?:訳|版)の(?:末|最後|終)",
        r"번역 ?(?:지침|지시|메모|참고|주의)|역자 ?주|역주|현지화 ?(?:지침|메모)|번역(?:하시|해 ?주시)는 ?분",
        r"\blocali[sz](?:ation|er|ing)\b|\b(?:japanese|english|korean|translated) version\b",
    ),
    "insert": (
        r"書き添え|と訳すこと|と訳(?:せ|し)|訳出せず|と書いて|一行足|末尾に",
        r"더해 ?주|더하|번역하지 ?말|자리에|쓸 ?것|덧대",
        r"\btranslate (?:\w{1,8} ){0,3}(?:as|into|to)\b|\bput\b|\bfinish (?:\w{1,10} ){0,3}with\b|\bin its place\b|"
        r"\bleave [^.\n]{1,20} out\b|\bon its own line\b|\bat the end of\b",
    ),
}

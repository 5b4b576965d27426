"""English and Chinese function words."""

_ENGLISH = """
the a an this that these those some any each every either neither no none all both half few many much more most less
least several such same other another own one two three four five six seven eight nine ten first second last i you he
she it we they me him her us them my your his its our their mine yours hers ours theirs myself yourself himself herself
itself ourselves themselves who whom whose which what where when why how there here and or but nor so yet if then else
than as because since although though while whereas unless until whether of in on at by for with from to into onto out
off up down over under above below between among through during before after behind beside beyond about against across
along around near upon within without toward towards past be am is are was were been being do does did done doing have
has had having can could may might must shall should will would not only also too very just even still again ever never
always often already now once soon nothing nobody everyone everybody everything anyone anybody anything someone somebody
something et etc via per
"""
_CHINESE = """
这 那 这个 那个 这些 那些 一个 一些 一点 每 每个 各 某 别的 其他 其它 自己 我 你 他 她 它 我们 你们 他们 她们 它们
的 地 得 了 着 过 和 与 或 或者 但 但是 而 而且 因为 所以 如果 虽然 可是 不过 然后 于是 就 都 也 还 又 再 才 只 很
更 最 太 在 从 到 向 往 对 把 被 给 让 跟 比 为 为了 以 由 于 用 之 其 所 是 有 没有 不 没 会 能 可以 可能 要 应该
必须 已经 正在 什么 谁 哪 哪里 怎么 为什么 多少 几 时候 之后 之前 以后 以前 里 上 下 中 旁边
"""
FUNCTION_WORDS = frozenset((_ENGLISH + _CHINESE).split())

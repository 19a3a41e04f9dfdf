-- An interpreter at work: recursion, sorting with a comparison function, tables, and text substitution.
-- The first argument stretches it; 1 is a fraction of a second.
local scale = tonumber(arg and arg[1]) or 1

local function fib(n)
  if n < 2 then return n end
  return fib(n - 1) + fib(n - 2)
end

local function shuffled(count)
  local numbers, state = {}, 12345
  for i = 1, count do
    state = (state * 1103515245 + 12345) % 2147483648
    numbers[i] = state
  end
  return numbers
end

local function words(count)
  local list = {}
  for i, number in ipairs(shuffled(count)) do list[i] = string.format("%x", number) end
  return table.concat(list, " ")
end

for _ = 1, math.max(1, math.floor(scale)) do
  local numbers = shuffled(90000)
  table.sort(numbers, function(a, b) return a > b end)
  local text = words(60000)
  local changed, times = text:gsub("(%x)(%d)", "%2%1")
  local letters = {}
  for letter in changed:gmatch("%a") do letters[letter] = (letters[letter] or 0) + 1 end
  print(fib(32), numbers[1], times, letters.a)
end

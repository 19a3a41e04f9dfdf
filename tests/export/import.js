// import.js MODULES FILE... - opens files with speedscope's own importer, and prints as JSON what it made of each: a list
// of profiles with name, unit, weight, and for each name of a frame its own and its total weight.
//
// The package has its importer as a chunk for browsers, made by Parcel. Its modules register before its page starts,
// which fails here, where there is none.
'use strict'
const fs = require('fs')
const path = require('path')
const vm = require('vm')

function loadImporter(directory) {
  const names = fs.readdirSync(directory)
  const page = vm.createContext({console: {log() {}, warn() {}, error() {}}, TextDecoder, TextEncoder, setTimeout})
  page.window = page
  for (const chunk of [/^speedscope\..*\.js$/, /^import\..*\.js$/]) {
    try {
      vm.runInContext(fs.readFileSync(path.join(directory, names.find(name => chunk.test(name))), 'utf8'), page)
    } catch (error) {
      if (!page.parcelRequire) throw error
    }
  }
  const modules = page.parcelRequire.modules
  const id = Object.keys(modules).find(name => /exports\.importProfileGroupFromText/.test(String(modules[name][0])))
  return page.parcelRequire(id)
}

function describe(profile) {
  const frames = {}
  profile.forEachFrame(frame => {
    const sum = frames[frame.name] || (frames[frame.name] = [0, 0])
    sum[0] += frame.getSelfWeight()
    sum[1] += frame.getTotalWeight()
  })
  return {name: profile.getName(), unit: profile.getWeightUnit(), weight: profile.getTotalWeight(), frames}
}

async function main(directory, files) {
  const importer = loadImporter(path.join(directory, 'speedscope', 'dist', 'release'))
  const results = []
  for (const file of files) {
    const bytes = new Uint8Array(fs.readFileSync(file)).buffer
    const group = await importer.importProfilesFromArrayBuffer(path.basename(file), bytes)
    results.push(group && group.profiles.map(describe))
  }
  process.stdout.write(JSON.stringify(results))
}

main(process.argv[2], process.argv.slice(3)).catch(error => {
  process.stderr.write(String(error && error.stack) + '\n')
  process.exit(1)
})
